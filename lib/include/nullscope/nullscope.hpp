/// All of the library.
#pragma once

#include <nullscope/atomic_file.hpp>
#include <nullscope/attention.hpp>
#include <nullscope/attention_backward.hpp>
#include <nullscope/attention_weights.hpp>
#include <nullscope/bfloat16.hpp>
#include <nullscope/context.hpp>
#include <nullscope/device.hpp>
#include <nullscope/effective_attention.hpp>
#include <nullscope/elementwise.hpp>
#include <nullscope/errors.hpp>
#include <nullscope/gemm.hpp>
#include <nullscope/launch.hpp>
#include <nullscope/layout.hpp>
#include <nullscope/null_space.hpp>
#include <nullscope/operation.hpp>
#include <nullscope/qr.hpp>
#include <nullscope/random.hpp>
#include <nullscope/rank_tolerance.hpp>
#include <nullscope/rows.hpp>
#include <nullscope/safetensors.hpp>
#include <nullscope/simplex.hpp>
#include <nullscope/svd.hpp>
#include <nullscope/tensor.hpp>
#include <nullscope/version.hpp>
#include <nullscope/view.hpp>
