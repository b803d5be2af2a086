/// The best parameters, and checkpoints of a trainer.
#include <fmt/format.h>

#include <charconv>
#include <nullscope/core/errors.hpp>
#include <nullscope/io/safetensors.hpp>
#include <nullscope/model/model_folder.hpp>

#include "lib/src/model/files/folder_config.hpp"
#include "lib/src/training/trainer_state.hpp"

namespace nullscope {
namespace {

constexpr const char* kind = "nullscope training checkpoint";

/// Everything that a step depends on besides the parameters and the examples.
std::string text_of(const training_options& o) {
  return fmt::format("rate {} beta {} {} epsilon {} decay {} norm {} schedule {} {} {} seed {} recompute {}",
                     o.learning_rate, o.beta1, o.beta2, o.epsilon, o.weight_decay, o.largest_norm,
                     o.schedule == learning_schedule::linear ? "linear" : "constant", o.warm_up_steps, o.total_steps,
                     o.seed, o.recompute);
}

template <class T>
void copy_all(context& ctx, const tensor<T>& from, tensor<T>& to) {
  ctx.queue().memcpy(to.data(), from.data(), static_cast<std::size_t>(from.size()) * sizeof(T)).wait_and_throw();
}

}  // namespace

template <class T>
void trainer<T>::keep_best() {
  wait();
  if (state_->best.size() == 0) state_->best = tensor<T>(state_->ctx, {state_->model.values().size()});
  copy_all(state_->ctx, state_->model.values(), state_->best);
}

template <class T>
void trainer<T>::restore_best() {
  wait();
  if (state_->best.size() == 0) throw invalid_argument("trainer: there are no best parameters to restore");
  copy_all(state_->ctx, state_->best, state_->model.values());
}

template <class T>
void trainer<T>::save(const std::filesystem::path& path, const std::string& progress) {
  state_->drain();
  const std::vector<std::pair<const char*, const tensor<T>*>> tensors{{"parameters", &state_->model.values()},
                                                                      {"adam.first", &state_->optimizer.first},
                                                                      {"adam.second", &state_->optimizer.second},
                                                                      {"best", &state_->best}};
  std::vector<std::vector<T>> numbers;
  for (const auto& [name, values] : tensors) numbers.push_back(values->to_host());
  std::vector<safetensors_entry> entries;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const auto size = static_cast<std::int64_t>(numbers[i].size());
    entries.push_back(make_entry(tensors[i].first, {size}, std::span<const T>(numbers[i])));
  }
  write_safetensors(path, entries,
                    {{"kind", kind},
                     {"model", detail::own_config({"nullscope", state_->model.config(), {}})},
                     {"options", text_of(state_->options)},
                     {"steps", std::to_string(state_->steps)},
                     {"progress", progress}});
}

template <class T>
std::string trainer<T>::load(const std::filesystem::path& path) {
  const safetensors_file file(path);
  const auto fail = [&](const std::string& text) { throw file_error(fmt::format("{}: {}", path.string(), text)); };
  const auto note = [&](const char* name) {
    const auto found = file.metadata().find(name);
    if (found == file.metadata().end()) fail("not a training checkpoint");
    return found->second;
  };
  if (note("kind") != kind) fail("not a training checkpoint");
  const auto expect = [&](const char* name, const std::string& wanted) {
    if (note(name) != wanted) fail(fmt::format("made with another {}:\n{}\nnow it is:\n{}", name, note(name), wanted));
  };
  expect("model", detail::own_config({"nullscope", state_->model.config(), {}}));
  expect("options", text_of(state_->options));
  const std::string steps = note("steps"), progress = note("progress");
  std::int64_t taken = -1;
  const auto [end, failure] = std::from_chars(steps.data(), steps.data() + steps.size(), taken);
  if (failure != std::errc() || end != steps.data() + steps.size() || taken < 0) {
    fail(fmt::format("the number of steps is \"{}\"", steps));
  }
  const std::int64_t size = state_->model.values().size();
  const auto read = [&](const char* name, std::int64_t expected) {
    const safetensors_entry& entry = file.at(name, {expected});
    if (entry.type != element_type_of<T>()) {
      fail(fmt::format("{} is {}, expected {}", name, to_string(entry.type), to_string(element_type_of<T>())));
    }
    return file.read<T>(entry);
  };
  const std::int64_t best_size = file.at("best").shape == std::vector<std::int64_t>{0} ? 0 : size;
  const std::vector<T> parameters = read("parameters", size), first = read("adam.first", size),
                       second = read("adam.second", size), best = read("best", best_size);
  wait();
  state_->model.values().copy_from(parameters);
  state_->optimizer.first.copy_from(first);
  state_->optimizer.second.copy_from(second);
  state_->best = best_size == 0 ? tensor<T>() : tensor<T>(state_->ctx, {size}, best);
  state_->steps = taken;
  state_->counted.clear();
  state_->drained.clear();
  return progress;
}

template void trainer<float>::keep_best();
template void trainer<double>::keep_best();
template void trainer<float>::restore_best();
template void trainer<double>::restore_best();
template void trainer<float>::save(const std::filesystem::path&, const std::string&);
template void trainer<double>::save(const std::filesystem::path&, const std::string&);
template std::string trainer<float>::load(const std::filesystem::path&);
template std::string trainer<double>::load(const std::filesystem::path&);

}  // namespace nullscope
