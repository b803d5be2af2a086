/// Model folders as Hugging Face writes them: config.json, model.safetensors (F32, F16, BF16; also sharded with an
/// index), tokenizer files. Families: BERT, DistilBERT, MPNet, GPT-2, with or without a sequence-classification head,
/// and the library's own ("nullscope": added heads, other d_k).
#pragma once

#include <filesystem>
#include <nullscope/context.hpp>
#include <nullscope/transformer.hpp>
#include <string>
#include <vector>

namespace nullscope {

/// What a folder says about itself.
struct model_description {
  std::string family;  ///< "bert", "distilbert", "mpnet", "gpt2", "nullscope"
  transformer_config config;
  std::vector<std::string> labels;  ///< of the classes, if there is a classifier
};

/// Reads config.json. Throws file_error: no such folder or file, an unknown family, a member that is missing or not
/// supported, by name.
model_description describe_model(const std::filesystem::path& folder);

/// Reads the parameters. Throws file_error with one line per tensor that is missing or has another shape, with the
/// shape expected and found. Tensors that the model does not need (poolers, position_ids, other heads) are ignored.
template <class T>
transformer<T> load_transformer(context& ctx, const std::filesystem::path& folder);

/// Writes config.json and model.safetensors into the folder, which is made if it is not there: with the names of the
/// family, so that `transformers` reads them, or as "nullscope" where the architecture is no other's. Atomic per file.
template <class T>
void save_transformer(context& ctx, const transformer<T>& model, const model_description& description,
                      const std::filesystem::path& folder);

}  // namespace nullscope
