#include "launch/blas_kernels.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "support/errors.h"
#include "support/program.h"

namespace sullae::testing {
namespace {

TEST(BlasKernels, OnlyThoseOfAnUnknownProcessorAreChosenAnew) {
  EXPECT_EQ(better_blas_kernels("Prescott", true, true), "SkylakeX");
  EXPECT_EQ(better_blas_kernels("Prescott", true, false), "Haswell");
  EXPECT_EQ(better_blas_kernels("Prescott", false, false), "") << "a real Prescott";
  EXPECT_EQ(better_blas_kernels("Zen", true, true), "") << "known";
  EXPECT_EQ(better_blas_kernels("Haswell", true, true), "");
}

/// What `program` gets, or says, with an OpenBLAS that knows no processor.
class OldOpenBlas : public ::testing::Test {
 protected:
  void SetUp() override {
#ifdef __x86_64__
    if (!__builtin_cpu_supports("avx2")) GTEST_SKIP() << "needs a processor with AVX2";
#else
    GTEST_SKIP() << "needs an x86 processor";
#endif
  }

  static std::string chosen(std::vector<std::string> options,
                            std::map<std::string, std::string> environment) {
    options.insert(options.begin(), {sullae_program(), "run", "-np", "1", "--no-tag"});
    options.insert(options.end(),
                   {"sh", "-c", "echo ${OPENBLAS_CORETYPE-none} ${OPENBLAS_NUM_THREADS-none}"});
    environment.emplace("OPENBLAS_CORETYPE", "");
    environment["LD_LIBRARY_PATH"] = std::filesystem::path(OLD_OPENBLAS).parent_path();
    return run_program(options, environment).standard_output;
  }
};

TEST_F(OldOpenBlas, RanksGetTheKernelsThatTheirProcessorCanRun) {
  const auto kernels = chosen({}, {});
  EXPECT_TRUE(kernels == "SkylakeX none\n" || kernels == "Haswell none\n") << kernels;
  EXPECT_EQ(chosen({}, {{"OPENBLAS_CORETYPE", "Nehalem"}}), "Nehalem none\n")
      << "the user's choice";
  EXPECT_EQ(chosen({"--env", "OPENBLAS_CORETYPE=Zen"}, {}), "Zen none\n");
}

TEST_F(OldOpenBlas, AProgramThatHasLoadedItIsToldWhatToSet) {
  const auto warning = [](const std::string& kernels) {
    // AddressSanitizer's library wants to be the first.
    return run_program({INIT_PROGRAM}, {{"LD_PRELOAD", OLD_OPENBLAS},
                                        {"OPENBLAS_CORETYPE", kernels},
                                        {"ASAN_OPTIONS", "verify_asan_link_order=0"}})
        .standard_error;
  };
  EXPECT_TRUE(contains(warning(""), "OpenBLAS does not know this processor")) << warning("");
  EXPECT_TRUE(contains(warning(""), "or with OPENBLAS_CORETYPE=")) << warning("");
  EXPECT_FALSE(contains(warning("Haswell"), "OpenBLAS"));
  EXPECT_FALSE(
      contains(run_program({INIT_PROGRAM}, {{"OPENBLAS_CORETYPE", ""}}).standard_error, "OpenBLAS"))
      << "a program without OpenBLAS";
}

}  // namespace
}  // namespace sullae::testing
