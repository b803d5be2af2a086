/// Attribution of small models of several families against PyTorch (data, made by make_attribution_expected.py).
#include <filesystem>
#include <nullscope/attribution/hidden_token_attribution.hpp>
#include <nullscope/io/safetensors.hpp>
#include <nullscope/model/model_folder.hpp>

#include "tests/core/support.hpp"

namespace nullscope::test {
namespace {

namespace fs = std::filesystem;

class attribution_expected_test : public device_test {};

INSTANTIATE_TEST_SUITE_P(devices, attribution_expected_test, testing::ValuesIn(devices()), device_name);

TEST_P(attribution_expected_test, all_norms_agree_with_pytorch) {
  if (!has_fp64()) GTEST_SKIP() << "needs double";
  for (const char* name : {"bert", "distilbert_f16", "gpt2_bf16", "mpnet_base"}) {
    SCOPED_TRACE(name);
    const fs::path folder = fs::path(NULLSCOPE_MODEL_DATA) / name;
    const transformer<double> model = load_transformer<double>(ctx_, folder);
    const safetensors_file inputs(folder / "expected.safetensors");
    const safetensors_file expected(fs::path(NULLSCOPE_ATTRIBUTION_DATA) / (std::string(name) + ".safetensors"));
    std::vector<token_batch::sequence> sequences;
    for (const std::string prefix : {"0/", "2/"}) {
      token_batch::sequence one{inputs.read<std::int32_t>(prefix + "ids"), {}};
      if (model.config().segments > 0) one.segments = inputs.read<std::int32_t>(prefix + "segments");
      sequences.push_back(one);
    }
    const token_batch batch(ctx_, model.config(), sequences);
    for (const auto& [norm, norm_name, tolerance] :
         {std::tuple(attribution_norm::frobenius, "frobenius", 1e-10), std::tuple(attribution_norm::sum, "sum", 1e-10),
          std::tuple(attribution_norm::spectral, "spectral", 1e-3)}) {
      SCOPED_TRACE(norm_name);
      // Some blocks have two singular values that nearly agree: 50 iterations do not tell them apart.
      const std::vector<attribution> got =
          hidden_token_attribution(ctx_, model, batch, {.norm = norm, .power_iterations = 400});
      for (std::size_t i = 0; i < 2; ++i) {
        const std::vector<double> norms = expected.read<double>(std::string(i == 0 ? "0/" : "2/") + norm_name);
        ASSERT_EQ(got[i].norm.size(), norms.size());
        for (std::size_t n = 0; n < norms.size(); ++n) {
          EXPECT_NEAR(got[i].norm[n], norms[n], tolerance * (norms[n] + 1e-3)) << "sequence " << i << " element " << n;
        }
      }
    }
  }
}

}  // namespace
}  // namespace nullscope::test
