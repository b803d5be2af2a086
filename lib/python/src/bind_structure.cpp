/// structure: the pattern W and the subspace R of a task, over all texts in one pass.
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <nullscope/structure/model_structure.hpp>

#include "bindings.hpp"
#include "model.hpp"

namespace nullscope::python {
namespace {

struct structure_settings {
  std::int64_t tokens;
  bool effective;
  cut_options cut;
  double tolerance;
};

template <class T>
nb::dict structure_of(model<T>& of, id_lists ids, id_lists segments, const structure_settings& settings,
                      nb::object progress) {
  constexpr std::size_t together = 16;  // texts of one batch
  std::vector<T> w, mean, basis, spectrum;
  std::vector<std::int64_t> emptied, dimension;
  of.without_gil([&](context& ctx, const transformer<T>& parameters) {
    const auto sequences = sequences_of(parameters.config(), std::move(ids), std::move(segments));
    model_structure<T> collected(ctx, parameters, settings.tokens, {settings.effective});
    for (std::size_t first = 0; first < sequences.size(); first += together) {
      const std::size_t count = std::min(together, sequences.size() - first);
      collected.add(ctx, std::span(sequences).subspan(first, count));
      report_progress(progress, static_cast<double>(first + count) / static_cast<double>(sequences.size()));
    }
    attention_structure<T> pattern = collected.attention().extract(ctx, settings.cut);
    const task_subspace_basis<T> subspace = collected.subspace().basis(ctx, {.relative = settings.tolerance});
    w = pattern.w.to_host();
    emptied = std::move(pattern.emptied);
    mean = collected.attention().mean(ctx).to_host();
    basis = subspace.basis.to_host();
    spectrum = subspace.s.to_host();
    dimension = subspace.dimension;
  });
  const std::int64_t layers = of.config().layers, heads = of.config().heads, s = settings.tokens;
  nb::dict result;
  result["w"] = to_numpy(std::move(w), {layers, heads, s, s});
  result["mean"] = to_numpy(std::move(mean), {layers, heads, s, s});
  result["emptied_rows"] = to_numpy(std::move(emptied), {layers, heads});
  result["basis"] = to_numpy(std::move(basis), {layers, heads, s, s});
  result["spectrum"] = to_numpy(std::move(spectrum), {layers, heads, s});
  result["dimension"] = to_numpy(std::move(dimension), {layers, heads});
  return result;
}

template <class T>
void bind_of(nb::module_& m) {
  m.def(
      "structure",
      [](model<T>& of, id_lists ids, id_lists segments, std::int64_t tokens, bool effective, double threshold,
         double factor, bool uniform, double tolerance, nb::object progress) {
        const cut_options cut{
            .threshold = threshold, .factor = factor, .empty = uniform ? empty_rows::uniform : empty_rows::zeros};
        return structure_of<T>(of, std::move(ids), std::move(segments), {tokens, effective, cut, tolerance}, progress);
      },
      nb::arg("model"), nb::arg("ids"), nb::arg("segments"), nb::arg("tokens"), nb::arg("effective"),
      nb::arg("threshold"), nb::arg("factor"), nb::arg("uniform"), nb::arg("tolerance"), nb::arg("progress").none());
}

}  // namespace

void bind_structure(nb::module_& m) {
  bind_of<float>(m);
  bind_of<double>(m);
}

}  // namespace nullscope::python
