// Models that go to a store, and come from one.
#include <gtest/gtest.h>

#include "storage/storage.h"
#include "support/errors.h"
#include "support/idx_files.h"
#include "support/program.h"
#include "support/store_server.h"
#include "support/temporary_directory.h"
#include "support/variable.h"

namespace sullae::testing {
namespace {

TEST(TrainedModels, GoToAStoreAndComeFromIt) {
  const auto& server = StoreServer::empty();
  const TemporaryDirectory directory;
  const Variable cache("XDG_CACHE_HOME", directory.path().c_str());
  write_small_mnist(directory.path(), 40, 20);
  const auto train = [&](std::vector<std::string> options) {
    std::vector<std::string> words{
        sullae_program(), "train", "mnist",        "--data", directory.path(),
        "--epochs",       "1",     "--batch-size", "20"};
    words.insert(words.end(), options.begin(), options.end());
    return run_program(words);
  };
  const auto first = train({"--export", server.s3("models")});
  EXPECT_EQ(first.exit_code, 0) << first.standard_error;
  EXPECT_TRUE(contains(first.standard_output,
                       "exported as s3://bucket/models/mnist/1: `sullae "
                       "serve s3://bucket/models` serves it"))
      << first.standard_output;
  const auto second =
      train({"--init-from", server.s3("models/mnist"), "--export", server.s3("models")});
  EXPECT_EQ(second.exit_code, 0) << second.standard_error;
  EXPECT_TRUE(storage::exists(server.s3("models/mnist/2/model.ckpt")));

  EXPECT_TRUE(contains(train({"--checkpoint-dir", server.s3("x")}).standard_error,
                       "--checkpoint-dir s3://bucket/x: is in a store: expected a folder of this "
                       "host, or one that hosts share"));
  EXPECT_TRUE(contains(train({"--report", server.s3("x/report.json")}).standard_error,
                       "--report s3://bucket/x: is in a store"));
  server.fail(R"(["403", "403", "403", "403"])");
  EXPECT_TRUE(
      contains(train({"--export", server.s3("models")}).standard_error, "s3://bucket/models"));
}

}  // namespace
}  // namespace sullae::testing
