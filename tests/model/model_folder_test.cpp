/// Model folders: small models of every family agree with what `transformers` computes (data/models, made by
/// make_model_expected.py), go through save and load unchanged, and damaged folders are refused with a reason.
#include <fmt/format.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>
#include <nullscope/io/safetensors.hpp>
#include <nullscope/model/model_folder.hpp>

#include "tests/cli/command.hpp"
#include "tests/core/support.hpp"

namespace nullscope {
namespace {

namespace fs = std::filesystem;
using test::message_of;
using test::temporary_folder;

fs::path model_path(const std::string& name) { return fs::path(NULLSCOPE_MODEL_DATA) / name; }

class model_folder_test : public test::device_test {
 protected:
  template <class T>
  void expect_transformers_numbers(const std::string& name);

  /// The error of loading a copy of the model "bert" after `change`.
  std::string complaint_after(const std::function<void(const fs::path& folder)>& change) {
    const temporary_folder copy;
    const fs::path folder = copy / "model";
    fs::copy(model_path("bert"), folder);
    change(folder);
    return message_of<file_error>([&] { load_transformer<float>(ctx_, folder); });
  }
};

/// The sequences that expected.safetensors is about.
std::vector<token_batch::sequence> sequences_of(const safetensors_file& expected) {
  std::vector<token_batch::sequence> result;
  for (int i = 0; expected.find(fmt::format("{}/ids", i)) != nullptr; ++i) {
    result.push_back({expected.read<std::int32_t>(fmt::format("{}/ids", i))});
    if (const auto* segments = expected.find(fmt::format("{}/segments", i))) {
      result.back().segments = expected.read<std::int32_t>(*segments);
    }
  }
  return result;
}

/// Rows [first, first + count) of x, which has `columns` columns.
template <class T>
std::vector<T> rows_of(const std::vector<T>& x, std::int64_t first, std::int64_t count, std::int64_t columns) {
  return {x.begin() + first * columns, x.begin() + (first + count) * columns};
}

template <class T>
void model_folder_test::expect_transformers_numbers(const std::string& name) {
  const transformer<T> model = load_transformer<T>(ctx_, model_path(name));
  const transformer_config& config = model.config();
  const safetensors_file expected(model_path(name) / "expected.safetensors");
  const token_batch batch(ctx_, config, sequences_of(expected));
  ASSERT_EQ(batch.size(), 4);
  const std::int64_t b = batch.size(), s = batch.tokens(), d = config.width;
  tensor<T> hidden(ctx_, {config.layers + 1, b, s, d}), logits, token_logits;
  if (config.classes > 0) logits = tensor<T>(ctx_, {b, config.classes});
  if (config.language_model) token_logits = tensor<T>(ctx_, {b, s, config.vocabulary});
  forward(ctx_, model, batch, {.hidden = hidden, .logits = logits, .token_logits = token_logits}).wait_and_throw();
  const std::vector<T> hidden_host = hidden.to_host(), logits_host = logits.to_host(),
                       token_logits_host = token_logits.to_host();
  // A forward pass of its own: the last layer then works on the pooled token alone.
  if (config.classes > 0) forward(ctx_, model, batch, {.logits = logits}).wait_and_throw();
  const std::vector<T> narrow_logits = logits.to_host();

  const double depth = static_cast<double>(d);  // terms of the sums
  const auto expect_close = [&](const std::vector<T>& got, const std::vector<double>& wanted, const std::string& what) {
    EXPECT_LT(scaled_residual(got, wanted, depth), 10) << name << ": " << what;
  };
  for (std::int64_t i = 0; i < b; ++i) {
    const std::int64_t length = batch.lengths()[static_cast<std::size_t>(i)];
    const auto wanted = expected.read<double>(expected.at(fmt::format("{}/hidden", i), {config.layers + 1, length, d}));
    for (std::int64_t layer = 0; layer <= config.layers; ++layer) {
      expect_close(rows_of(hidden_host, (layer * b + i) * s, length, d), rows_of(wanted, layer * length, length, d),
                   fmt::format("sequence {}, hidden state {}", i, layer));
    }
    ASSERT_EQ(expected.find(fmt::format("{}/logits", i)) != nullptr, config.classes > 0);
    if (config.classes > 0) {
      const auto of_sequence = expected.read<double>(fmt::format("{}/logits", i));
      expect_close(rows_of(logits_host, i, 1, config.classes), of_sequence, fmt::format("logits {}", i));
      expect_close(rows_of(narrow_logits, i, 1, config.classes), of_sequence, fmt::format("logits {} alone", i));
    }
    if (const auto* entry = expected.find(fmt::format("{}/token_logits", i))) {
      expect_close(rows_of(token_logits_host, i * s, length, config.vocabulary), expected.read<double>(*entry),
                   fmt::format("token logits {}", i));
    }
  }
}

const char* const all_models[] = {"bert",       "bert_sharded", "distilbert_f16", "mpnet",
                                  "mpnet_base", "gpt2_bf16",    "gpt2_classifier"};

TEST_P(model_folder_test, hidden_states_and_logits_are_those_of_transformers) {
  for (const char* name : all_models) {
    expect_transformers_numbers<float>(name);
    if (has_fp64()) expect_transformers_numbers<double>(name);
  }
}

/// All tensors of a folder as floats, by name.
std::map<std::string, std::pair<std::vector<std::int64_t>, std::vector<float>>> tensors_in(const fs::path& folder) {
  std::map<std::string, std::pair<std::vector<std::int64_t>, std::vector<float>>> result;
  for (const fs::directory_entry& file : fs::directory_iterator(folder)) {
    const std::string name = file.path().filename().string();
    if (!name.starts_with("model") || file.path().extension() != ".safetensors") continue;
    const safetensors_file tensors(file.path());
    for (const safetensors_entry& entry : tensors.entries()) {
      result[entry.name] = {entry.shape, tensors.read<float>(entry)};
    }
  }
  return result;
}

TEST_P(model_folder_test, a_model_is_saved_with_the_names_it_came_with) {
  for (const char* name : all_models) {
    SCOPED_TRACE(name);
    const temporary_folder target;
    const model_description description = describe_model(model_path(name));
    const transformer<float> model = load_transformer<float>(ctx_, model_path(name));
    save_transformer(ctx_, model, description, target / "saved");
    const model_description again = describe_model(target / "saved");
    EXPECT_EQ(again.family, description.family);
    EXPECT_EQ(again.labels, description.labels);
    EXPECT_EQ(again.config, description.config);
    EXPECT_EQ(load_transformer<float>(ctx_, target / "saved").values().to_host(), model.values().to_host());
    const auto original = tensors_in(model_path(name));
    for (const auto& [tensor, content] : tensors_in(target / "saved")) {
      ASSERT_EQ(original.count(tensor), 1u) << tensor;
      EXPECT_EQ(original.at(tensor), content) << tensor;
    }
  }
}

TEST_P(model_folder_test, models_that_nobody_else_has_are_saved_as_our_own) {
  transformer_config config;
  config.layers = 2;
  config.width = 10;
  config.heads = 3;
  config.key_size = 2;
  config.value_size = 10;
  config.merge = head_merge::added;
  config.feed_forward = 7;
  config.vocabulary = 9;
  config.positions = 5;
  config.classes = 2;
  transformer<float> model(ctx_, config);
  model.initialise(ctx_, 3);
  const temporary_folder target;
  save_transformer(ctx_, model, {"bert", config, {"bad", "good"}}, target / "own");
  const model_description description = describe_model(target / "own");
  EXPECT_EQ(description.family, "nullscope");
  EXPECT_EQ(description.labels, (std::vector<std::string>{"bad", "good"}));
  EXPECT_EQ(description.config, config);
  EXPECT_EQ(load_transformer<float>(ctx_, target / "own").values().to_host(), model.values().to_host());
}

/// Writes model.safetensors again, with entries that `change` may rename, reshape, remove or add.
void change_tensors(const fs::path& folder, const std::function<void(std::vector<safetensors_entry>&)>& change) {
  const safetensors_file before(folder / "model.safetensors");
  std::vector<safetensors_entry> entries = before.entries();
  change(entries);
  write_safetensors(folder / "model.safetensors", entries);
}

safetensors_entry& entry_of(std::vector<safetensors_entry>& entries, const std::string& name) {
  return *std::ranges::find(entries, name, &safetensors_entry::name);
}

void change_config(const fs::path& folder, const std::function<void(nlohmann::json&)>& change) {
  nlohmann::json config = nlohmann::json::parse(test::content_of(folder / "config.json"));
  change(config);
  std::ofstream(folder / "config.json") << config.dump();
}

void expect_parts(const std::string& message, std::initializer_list<const char*> parts) {
  for (const char* part : parts) EXPECT_NE(message.find(part), std::string::npos) << part << " is not in: " << message;
}

TEST_P(model_folder_test, one_error_names_every_tensor_that_is_missing_or_misshapen) {
  const std::string message = complaint_after([](const fs::path& folder) {
    change_tensors(folder, [](auto& entries) {
      std::erase_if(entries, [](const auto& e) { return e.name == "bert.encoder.layer.1.attention.self.key.weight"; });
      entry_of(entries, "bert.encoder.layer.0.intermediate.dense.weight").shape = {21, 29};
      entry_of(entries, "classifier.bias").shape = {3, 1};
    });
  });
  expect_parts(message, {"3 tensors", "encoder.layer.1.attention.self.key.weight [21, 21] is missing",
                         "bert.encoder.layer.0.intermediate.dense.weight is [21, 29], expected [29, 21]",
                         "classifier.bias is [3, 1], expected [3]"});
}

TEST_P(model_folder_test, a_tensor_of_integers_and_a_truncated_file_are_refused) {
  expect_parts(complaint_after([](const fs::path& folder) {
                 change_tensors(folder,
                                [](auto& entries) { entry_of(entries, "classifier.bias").type = element_type::i32; });
               }),
               {"model.safetensors", "classifier.bias", "I32"});
  expect_parts(complaint_after([](const fs::path& folder) { fs::resize_file(folder / "model.safetensors", 9999); }),
               {"model.safetensors"});
}

TEST_P(model_folder_test, other_tensors_are_ignored_and_other_spellings_understood) {
  const temporary_folder copy;
  const fs::path folder = copy / "model";
  fs::copy(model_path("bert"), folder);
  const std::vector<std::int64_t> positions{0, 1, 2};
  change_tensors(folder, [&](auto& entries) {
    for (safetensors_entry& entry : entries) {
      if (entry.name.starts_with("bert.")) entry.name.erase(0, 5);
      if (entry.name.ends_with("LayerNorm.weight")) entry.name.replace(entry.name.size() - 6, 6, "gamma");
      if (entry.name.ends_with("LayerNorm.bias")) entry.name.replace(entry.name.size() - 4, 4, "beta");
    }
    entries.push_back(make_entry("embeddings.position_ids", {1, 3}, positions));
    entries.push_back(make_entry("cls.predictions.bias", {3}, positions));
  });
  EXPECT_EQ(load_transformer<float>(ctx_, folder).values().to_host(),
            load_transformer<float>(ctx_, model_path("bert")).values().to_host());
}

TEST_P(model_folder_test, a_folder_that_is_not_a_model_is_refused) {
  const auto load = [&](const fs::path& folder) {
    return message_of<file_error>([&] { load_transformer<float>(ctx_, folder); });
  };
  expect_parts(load("no/such/folder"), {"no/such/folder", "no such folder"});
  expect_parts(load(NULLSCOPE_MODEL_DATA), {"config.json"});
  expect_parts(complaint_after([](const fs::path& folder) { fs::remove(folder / "model.safetensors"); }),
               {"there is no model.safetensors"});
  expect_parts(complaint_after([](const fs::path& folder) {
                 fs::rename(folder / "model.safetensors", folder / "pytorch_model.bin");
               }),
               {"pytorch_model.bin is not read"});
  expect_parts(complaint_after([](const fs::path& folder) { std::ofstream(folder / "config.json") << "{"; }),
               {"config.json", "not JSON", "line 1"});
  expect_parts(complaint_after([](const fs::path& folder) { std::ofstream(folder / "config.json") << "[]"; }),
               {"config.json", "is an array", "expected an object"});
}

TEST_P(model_folder_test, a_config_that_is_not_supported_is_refused) {
  struct wrong_config {
    const char *member, *value, *expected;
  };
  const wrong_config cases[] = {
      {"model_type", "\"t5\"", "model_type \"t5\" is not supported"},
      {"model_type", "null", "model_type is missing"},
      {"hidden_size", "null", "hidden_size is missing"},
      {"hidden_size", "\"wide\"", "hidden_size is \"wide\", which is of the wrong type"},
      {"hidden_act", "\"swish\"", "hidden_act \"swish\" is not supported"},
      {"num_attention_heads", "5", "5 heads do not divide a width of 21"},
      {"num_attention_heads", "0", "0 heads do not divide"},
      {"num_hidden_layers", "-1", "layers"},
      {"position_embedding_type", "\"relative_key\"", "position_embedding_type"},
      {"is_decoder", "true", "is_decoder"},
      {"id2label", "{\"0\": \"a\", \"7\": \"b\"}", "id2label has no 1"},
  };
  for (const auto& [member, value, expected] : cases) {
    const std::string message = complaint_after([&, name = member, text = value](const fs::path& folder) {
      change_config(folder, [&](nlohmann::json& config) { config[name] = nlohmann::json::parse(text); });
    });
    expect_parts(message, {"config.json", expected});
  }
}

TEST_P(model_folder_test, an_index_must_name_files_of_the_folder) {
  const auto complain = [&](const char* shard) {
    const temporary_folder copy;
    const fs::path folder = copy / "model";
    fs::copy(model_path("bert_sharded"), folder);
    nlohmann::json index{{"weight_map", {{"embeddings.word_embeddings.weight", shard}}}};
    std::ofstream(folder / "model.safetensors.index.json") << index.dump();
    return message_of<file_error>([&] { load_transformer<float>(ctx_, folder); });
  };
  expect_parts(complain("model-00003-of-00002.safetensors"), {"model-00003-of-00002.safetensors"});
  expect_parts(complain("../model.safetensors"), {"../model.safetensors is not in the folder"});
}

INSTANTIATE_TEST_SUITE_P(devices, model_folder_test, testing::ValuesIn(devices()), test::device_name);

}  // namespace
}  // namespace nullscope
