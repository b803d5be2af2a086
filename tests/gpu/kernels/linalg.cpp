#include "kernels/linalg/batch_cholesky.hpp"
#include "kernels/linalg/block_sums.hpp"
#include "kernels/linalg/column_reduce.hpp"
#include "kernels/linalg/elementwise.hpp"
#include "kernels/linalg/fill_random.hpp"
#include "kernels/linalg/gemm_tiled.hpp"
#include "kernels/linalg/least_squares.hpp"
#include "kernels/linalg/qr_chunks.hpp"
#include "kernels/linalg/row_layer_norm.hpp"
#include "kernels/linalg/row_reduce.hpp"
#include "kernels/linalg/row_softmax.hpp"
#include "kernels/linalg/svd/jacobi.hpp"
#include "kernels/linalg/svd/rank.hpp"
#include "kernels/linalg/to_panels.hpp"
#include "kernels/linalg/transpose.hpp"
#include "tests/gpu/kernels/tables.hpp"

namespace nullscope::races {

kernel_table linalg_kernels() {
  using namespace kernels;
  return rows<
      fill_random<double, false, 1, 256>, fill_random<double, false, 1, 32>, fill_random<double, true, 1, 256>,
      fill_random<double, true, 1, 32>, fill_random<float, false, 1, 256>, fill_random<float, false, 1, 32>,
      fill_random<float, true, 1, 256>, fill_random<float, true, 1, 32>, back_substitution<double, 1>,
      back_substitution<float, 1>, batch_cholesky<double, 1, 256>, batch_cholesky<double, 1, 32>,
      batch_cholesky<float, 1, 256>, batch_cholesky<float, 1, 32>, block_sums<double, 1, 256>,
      block_sums<double, 1, 32>, block_sums<float, 1, 256>, block_sums<float, 1, 32>,
      column_reduce<double, reduction::sum, 1, 256>, column_reduce<double, reduction::sum, 1, 32>,
      column_reduce<float, reduction::sum, 1, 256>, column_reduce<float, reduction::sum, 1, 32>,
      gemm_tiled<bfloat16, float, gemm_shape<1, 8, 4, 16, 16, 16>>,
      gemm_tiled<double, double, gemm_shape<1, 4, 4, 16, 16, 16>>,
      gemm_tiled<float, float, gemm_shape<1, 8, 4, 16, 16, 16>>,
      map_one<apply_gelu<double>, double, double, 1, 256, false>,
      map_one<apply_gelu<double>, double, double, 1, 32, false>,
      map_one<apply_gelu<float>, float, float, 1, 256, false>, map_one<apply_gelu<float>, float, float, 1, 32, false>,
      map_one<identity, bfloat16, bfloat16, 1, 256, false>, map_one<identity, bfloat16, bfloat16, 1, 32, false>,
      map_one<identity, bfloat16, float, 1, 256, false>, map_one<identity, bfloat16, float, 1, 32, false>,
      map_one<identity, double, double, 1, 256, false>, map_one<identity, double, double, 1, 32, false>,
      map_one<identity, double, float, 1, 256, false>, map_one<identity, double, float, 1, 32, false>,
      map_one<identity, float, bfloat16, 1, 256, false>, map_one<identity, float, bfloat16, 1, 32, false>,
      map_one<identity, float, double, 1, 256, false>, map_one<identity, float, double, 1, 32, false>,
      map_one<identity, float, float, 1, 256, false>, map_one<identity, float, float, 1, 32, false>,
      map_one<scale_by<double>, double, double, 1, 256, false>, map_one<scale_by<double>, double, double, 1, 32, false>,
      map_one<scale_by<float>, float, float, 1, 256, false>, map_one<scale_by<float>, float, float, 1, 32, false>,
      map_two<product, double, 1, 256, false>, map_two<product, double, 1, 32, false>,
      map_two<product, float, 1, 256, false>, map_two<product, float, 1, 32, false>,
      map_two<weighted_sum<double>, double, 1, 256, false>, map_two<weighted_sum<double>, double, 1, 32, false>,
      map_two<weighted_sum<float>, float, 1, 256, false>, map_two<weighted_sum<float>, float, 1, 32, false>,
      qr_chunks<double, 1>, qr_chunks<float, 1>, ridge_rows<double>, ridge_rows<float>,
      row_layer_norm<double, 1, 256, false>, row_layer_norm<double, 1, 32, false>, row_layer_norm<float, 1, 256, false>,
      row_layer_norm<float, 1, 32, false>, row_reduce<double, reduction::norm, 1, 256>,
      row_reduce<double, reduction::norm, 1, 32>, row_reduce<double, reduction::sum, 1, 256>,
      row_reduce<double, reduction::sum, 1, 32>, row_reduce<double, reduction::sum_of_squares, 1, 256>,
      row_reduce<double, reduction::sum_of_squares, 1, 32>, row_reduce<float, reduction::norm, 1, 256>,
      row_reduce<float, reduction::norm, 1, 32>, row_reduce<float, reduction::sum, 1, 256>,
      row_reduce<float, reduction::sum, 1, 32>, row_reduce<float, reduction::sum_of_squares, 1, 256>,
      row_reduce<float, reduction::sum_of_squares, 1, 32>, row_softmax<double, 1, 256, false>,
      row_softmax<double, 1, 32, false>, row_softmax<float, 1, 256, false>, row_softmax<float, 1, 32, false>,
      svd_jacobi<double, 1, 16>, svd_jacobi<float, 1, 16>, svd_rank<double>, svd_rank<float>,
      to_panels<bfloat16, float, 1, 16, 32>, to_panels<bfloat16, float, 1, 16, 4>, to_panels<double, double, 1, 16, 32>,
      to_panels<double, double, 1, 16, 4>, to_panels<float, float, 1, 16, 32>, to_panels<float, float, 1, 16, 4>,
      transpose_tiles<bfloat16, 1, 256, false>, transpose_tiles<double, 1, 256, false>,
      transpose_tiles<float, 1, 256, false>>();
}

}  // namespace nullscope::races
