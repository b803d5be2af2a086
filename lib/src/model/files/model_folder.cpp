#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nullscope/core/errors.hpp>
#include <nullscope/io/safetensors.hpp>
#include <nullscope/model/model_folder.hpp>
#include "lib/src/io/atomic_file.hpp"

#include "lib/src/model/files/folder_config.hpp"
#include "lib/src/model/files/folder_names.hpp"
#include "lib/src/model/files/tensor_files.hpp"
#include "lib/src/model/parameters.hpp"

namespace nullscope {
namespace {

namespace fs = std::filesystem;
using detail::tensor_files;

/// The name that norms had in old files.
std::string old_name(std::string name) {
  const auto replace = [&](std::string_view from, std::string_view to) {
    if (name.ends_with(from)) name.replace(name.size() - from.size(), from.size(), to);
  };
  replace("LayerNorm.weight", "LayerNorm.gamma");
  replace("LayerNorm.bias", "LayerNorm.beta");
  return name;
}

/// The shape of a tensor that fills these rows of the parameter.
std::vector<std::int64_t> shape_of(const parameter& p, const detail::tensor_place& place) {
  if (p.shape.size() == 1) return {place.rows};
  if (place.transposed) return {p.shape[1], place.rows};
  return {place.rows, p.shape[1]};
}

/// The tensor for each place. Throws file_error with one line per tensor that is missing or has another shape.
std::vector<tensor_files::found_tensor> find_all(const tensor_files& files, const std::vector<parameter>& parameters,
                                                 const std::vector<detail::tensor_place>& places,
                                                 const std::string& family, const fs::path& folder) {
  const std::string prefix = detail::base_prefix(family);
  std::vector<tensor_files::found_tensor> result;
  std::vector<std::string> problems;
  for (const detail::tensor_place& place : places) {
    const std::vector<std::int64_t> expected = shape_of(*detail::find_parameter(parameters, place.parameter), place);
    const std::string old = old_name(place.tensor);
    const auto found = files.find({place.tensor, prefix + place.tensor, old, prefix + old});
    if (!found) {
      problems.push_back(fmt::format("{} {} is missing", place.tensor, expected));
    } else if (found->entry->shape != expected) {
      problems.push_back(fmt::format("{} is {}, expected {}", found->entry->name, found->entry->shape, expected));
    } else {
      result.push_back(*found);
    }
  }
  if (problems.empty()) return result;
  throw file_error(fmt::format("{}: {} tensors do not fit the model:\n  {}", folder.string(), problems.size(),
                               fmt::join(problems, "\n  ")));
}

/// The transpose of x (rows, columns).
template <class T>
std::vector<T> transposed_numbers(const std::vector<T>& x, std::int64_t rows, std::int64_t columns) {
  std::vector<T> result(x.size());
  for (std::int64_t row = 0; row < rows; ++row) {
    for (std::int64_t column = 0; column < columns; ++column) {
      result[static_cast<std::size_t>(column * rows + row)] = x[static_cast<std::size_t>(row * columns + column)];
    }
  }
  return result;
}

}  // namespace

template <class T>
transformer<T> load_transformer(context& ctx, const fs::path& folder) {
  const model_description description = describe_model(folder);
  const tensor_files files(folder);
  const std::vector<detail::tensor_place> places = detail::tensor_places(description.family, description.config);
  // Before the model takes memory: a config may ask for anything.
  const std::vector<tensor_files::found_tensor> found =
      find_all(files, parameters_of(description.config), places, description.family, folder);
  transformer<T> model(ctx, description.config);
  for (std::size_t i = 0; i < places.size(); ++i) {
    const detail::tensor_place& place = places[i];
    const auto& [file, entry] = found[i];
    const parameter& p = *detail::find_parameter(model.parameters(), place.parameter);
    const std::int64_t columns = p.shape.size() == 1 ? 1 : p.shape[1], count = place.rows * columns;
    T* const to = model.values().data() + p.offset + place.first_row * columns;
    const auto copy_from = [&](const void* numbers) {
      detail::copy(ctx.queue(), numbers, to, count * static_cast<std::int64_t>(sizeof(T)));
    };
    if (entry->type == element_type_of<T>() && !place.transposed) {
      copy_from(entry->bytes.data());  // straight from the mapped file
      continue;
    }
    const std::vector<T> numbers = file->template read<T>(*entry);
    copy_from(place.transposed ? transposed_numbers(numbers, columns, place.rows).data() : numbers.data());
  }
  return model;
}

template <class T>
void save_transformer(context&, const transformer<T>& model, const model_description& description,
                      const fs::path& folder) {
  if (!(description.config == model.config())) {
    throw invalid_argument("save_transformer: the description is of another model");
  }
  std::string config = detail::family_config(description);
  const bool is_own = config.empty();
  if (is_own) config = detail::own_config(description);
  const std::string family = is_own ? "nullscope" : description.family;
  const bool has_head = model.config().classes > 0 || model.config().language_model;
  const std::string prefix = is_own || !has_head ? "" : detail::base_prefix(family);
  const std::vector<T> values = model.values().to_host();
  std::vector<std::vector<T>> numbers;
  std::vector<safetensors_entry> entries;
  for (const detail::tensor_place& place : detail::tensor_places(family, model.config())) {
    const parameter& p = *detail::find_parameter(model.parameters(), place.parameter);
    const std::int64_t columns = p.shape.size() == 1 ? 1 : p.shape[1];
    const T* const from = values.data() + p.offset + place.first_row * columns;
    std::vector<T>& part = numbers.emplace_back(from, from + place.rows * columns);
    if (place.transposed) part = transposed_numbers(part, place.rows, columns);
    // `transformers` puts its prefix before all but the heads.
    const bool is_head = place.parameter.starts_with("classifier") && !place.tensor.starts_with("pooler.");
    entries.push_back({is_head ? place.tensor : prefix + place.tensor, element_type_of<T>(), shape_of(p, place),
                       std::as_bytes(std::span<const T>())});
  }
  for (std::size_t i = 0; i < entries.size(); ++i) entries[i].bytes = std::as_bytes(std::span<const T>(numbers[i]));
  std::error_code failed;
  fs::create_directories(folder, failed);
  if (failed) throw file_error(fmt::format("{}: cannot make the folder: {}", folder.string(), failed.message()));
  write_safetensors(folder / "model.safetensors", entries, {{"format", "pt"}});
  write_atomically(folder / "config.json", config);
}

template transformer<float> load_transformer(context&, const fs::path&);
template transformer<double> load_transformer(context&, const fs::path&);
template void save_transformer(context&, const transformer<float>&, const model_description&, const fs::path&);
template void save_transformer(context&, const transformer<double>&, const model_description&, const fs::path&);

}  // namespace nullscope
