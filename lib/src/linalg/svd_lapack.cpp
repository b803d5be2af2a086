#include "lib/src/linalg/svd_libraries.hpp"
#include "lib/src/linalg/svd_paths.hpp"
#include "lib/src/vendor/native_command.hpp"

namespace nullscope::detail {
namespace {

template <class T>
void decompose_by_vendor(operation& op, const svd_problem<T>& problem) {
  switch (native_queue_of(op.ctx().queue())) {
    case native_queue::cuda: return svd_cusolver(op, *cusolver::library(), problem);
    case native_queue::hip: return svd_rocsolver(op, *rocsolver::library(), problem);
    case native_queue::none: return svd_onemkl(op, problem);
  }
}

}  // namespace

bool has_lapack(const context& ctx) {
  switch (native_queue_of(ctx.queue())) {
    case native_queue::cuda: return cusolver::library() != nullptr;
    case native_queue::hip: return rocsolver::library() != nullptr;
    case native_queue::none: break;
  }
  return has_onemkl_svd() && ctx.layout().has_vectors();
}

void run_lapack_svd(operation& op, const svd_problem<float>& problem) { decompose_by_vendor(op, problem); }
void run_lapack_svd(operation& op, const svd_problem<double>& problem) { decompose_by_vendor(op, problem); }

}  // namespace nullscope::detail
