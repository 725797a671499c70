// Versions come and go while requests are answered: each answers with its own constant.
#include "serve/repository/repository.h"

#include <gtest/gtest.h>

#include <thread>

#include "base/request_error.h"
#include "repository/publish.h"
#include "repository/serving_state.h"
#include "serve/models.h"
#include "serve/repository/served_constants.h"
#include "support/errors.h"
#include "support/temporary_directory.h"
#include "support/wait_until.h"

namespace sullae::testing {
namespace {

using namespace serve;

class RepositoryTest : public ServedConstants {};

TEST_F(RepositoryTest, ServesTheNewestAndNoticesNewOnes) {
  put_constant(model_, 1, 1);
  put_constant(model_, 3, 3);
  start();
  wait_for(3);
  EXPECT_TRUE(repository_->ready());
  put_constant(model_, 4, 4);
  wait_for(4);
  EXPECT_TRUE(contains(error_of([&] { ask("1"); }), "model 'm' serves no version 1"));
  EXPECT_TRUE(contains(error_of([&] { ask("x"); }), "version 'x': expected a number from 1"));
  EXPECT_TRUE(contains(error_of([&] { repository_->choose("n", ""); }), "there is no model 'n'"));
  // A model that is put there later.
  put_text(directory_.path() / "n" / "config.toml", kConstantConfig);
  put_constant(directory_.path() / "n", 1, 1);
  wait_until([&] { return repository_->index().size() == 2 && repository_->ready(); });
}

TEST_F(RepositoryTest, IsNoModelsFolder) {
  put_constant(model_, 1, 1);
  for (const auto& directory : {model_, model_ / ""}) {
    EXPECT_EQ(error_of([&] { Repository({.directory = directory}); }),
              directory.string() +
                  ": is a model; expected the folder that has it, a model repository: " +
                  directory_.path().string());
  }
  EXPECT_FALSE(std::filesystem::exists(model_ / ".serving.lock"));
  const TemporaryDirectory empty;
  ::testing::internal::CaptureStderr();
  {
    Repository repository({.directory = empty.path()});
    repository.start();
  }
  EXPECT_TRUE(
      contains(::testing::internal::GetCapturedStderr(),
               ": has no model yet; expected <model>/<version>/model.ckpt, model.pt or model.pt2"));
}

TEST_F(RepositoryTest, AVersionThatCannotBeIsRefusedAndTheOldOneStays) {
  put_constant(model_, 1, 1);
  start();
  wait_for(1);
  put_text(model_ / "2" / "model.pt", "no archive");
  wait_until([&] { return version(2).state == VersionState::refused; });
  EXPECT_TRUE(contains(version(2).reason, "model.pt: is no TorchScript module"))
      << version(2).reason;
  std::filesystem::create_directories(model_ / "3");
  wait_until([&] { return version(3).state == VersionState::refused; });
  EXPECT_TRUE(contains(version(3).reason, "expected model.ckpt")) << version(3).reason;
  put_text(model_ / "4" / "model.ckpt", "PK\3\4 torn");
  wait_until([&] { return version(4).state == VersionState::refused; });
  EXPECT_TRUE(contains(version(4).reason, "is torn")) << version(4).reason;
  EXPECT_EQ(ask(), 1);
  // Mended in place.
  take_away(model_ / "3");
  put_constant(model_, 3, 3);
  wait_for(3);
}

TEST_F(RepositoryTest, GoldenRequestsDecide) {
  put_text(model_ / "config.toml", std::string(kConstantConfig) + R"(
[[golden]]
instance = [1, 2]
expect = [1.0]
tolerance = 0.5
)");
  put_constant(model_, 1, 1.2);
  start();
  wait_for(1.2F);
  put_constant(model_, 2, 2);
  wait_until([&] { return version(2).state == VersionState::refused; });
  EXPECT_TRUE(contains(version(2).reason, "golden request [1,2]: expected [1.0], got [2.0]"))
      << version(2).reason;
  EXPECT_EQ(ask(), 1.2F);
}

TEST_F(RepositoryTest, RollsBackAlsoForTheNextStart) {
  put_constant(model_, 1, 1);
  put_constant(model_, 2, 2);
  start();
  wait_for(2);
  EXPECT_EQ(repository_->roll_back("m").serving, 1) << "when it returns, it is done";
  EXPECT_EQ(ask(), 1);
  EXPECT_EQ(version(2).state, VersionState::withdrawn);
  EXPECT_TRUE(contains(error_of([&] { repository_->roll_back("m"); }),
                       "there is no version before 1 to go back to"));
  repository_.reset();
  start();
  wait_for(1);
  put_constant(model_, 3, 3);
  wait_for(3);
  EXPECT_EQ(repository_->roll_back("m").serving, 1);
  EXPECT_EQ(repository_->reload("m").serving, 3);
}

// What is to answer is loaded before anything is withdrawn for it.
TEST_F(RepositoryTest, ARollBackToWhatIsRefusedChangesNothing) {
  put_constant(model_, 1, 1);
  put_constant(model_, 2, 2);
  start();
  wait_for(2);
  put_text(model_ / "config.toml",
           std::string(kConstantConfig) + "[[golden]]\ninstance = [1, 2]\nexpect = [2.0]\n");
  const auto refusal = "model 'm': version 1 is refused: ";
  EXPECT_TRUE(contains(error_of([&] { repository_->roll_back("m"); }), refusal));
  EXPECT_EQ(ask(), 2);
  EXPECT_EQ(version(2).state, VersionState::ready);
  EXPECT_TRUE(contains(error_of([&] { repository_->set_canary("m", 1, 100); }), refusal));
  EXPECT_TRUE(contains(error_of([&] { repository_->set_canary("m", 1, 5); }), refusal));
  EXPECT_EQ(repository_->status("m").canary, 0);
  repository_.reset();
  start();
  wait_for(2);
}

TEST_F(RepositoryTest, ANumberThatIsGivenAgainIsAnotherVersion) {
  put_constant(model_, 1, 1);
  put_constant(model_, 2, 2);
  start();
  wait_for(2);
  EXPECT_EQ(repository_->roll_back("m").serving, 1);
  std::filesystem::remove_all(model_ / "2");
  wait_until([&] { return repository_->status("m").versions.size() == 1; });
  wait_until([&] { return repository::read_serving_state(model_).withdrawn.empty(); });
  put_constant(model_, 2, 3);
  wait_for(3);
}

TEST_F(RepositoryTest, ALoadedVersionWhoseFilesChangeAnswersAsItDidAndSaysSo) {
  put_constant(model_, 1, 1);
  start();
  wait_for(1);
  put_constant(directory_.path() / ".other", 1, 2);
  std::filesystem::copy_file(directory_.path() / ".other" / "1" / "model.pt",
                             model_ / "1" / "model.pt",
                             std::filesystem::copy_options::overwrite_existing);
  std::filesystem::last_write_time(model_ / "1" / "model.pt",
                                   std::filesystem::file_time_type::clock::now());
  wait_until([&] { return contains(version(1).reason, "its files have changed since"); });
  EXPECT_EQ(version(1).state, VersionState::ready);
  EXPECT_EQ(ask(), 1);
}

TEST_F(RepositoryTest, GoesBackToNothingThatItsPolicyLeavesOut) {
  put_text(model_ / "config.toml", std::string("version_policy = \"1,3\"\n") + kConstantConfig);
  for (const int number : {1, 2, 3}) put_constant(model_, number, number);
  start();
  wait_for(3);
  repository_->roll_back("m");
  wait_for(1);
  put_text(model_ / "config.toml", std::string("version_policy = \"7\"\n") + kConstantConfig);
  put_text(directory_.path() / "n" / "config.toml",
           std::string("version_policy = \"7\"\n") + kConstantConfig);
  put_constant(directory_.path() / "n", 1, 1);
  wait_until([&] {
    return contains(error_of([&] { repository_->choose("n", ""); }),
                    "version_policy in config.toml lists none of the versions there are");
  });
}

// `sullae train --export-name` refuses it, too.
TEST_F(RepositoryTest, AModelWhoseNameCannotBeIsNotServed) {
  put_constant(directory_.path() / "a:b", 1, 1);
  put_constant(model_, 1, 1);
  start();
  wait_for(1);
  EXPECT_EQ(repository_->index().size(), 1U);
  EXPECT_TRUE(
      contains(error_of([] { repository::publish_version("/tmp", "a:b", "", [](const auto&) {}); }),
               "'a:b' cannot be the name of a model: expected a name that does not begin "
               "with a dot"));
}

TEST_F(RepositoryTest, ServesSeveralVersionsWhereTheyAreAskedFor) {
  put_text(model_ / "config.toml", std::string("version_policy = \"all\"\n") + kConstantConfig);
  for (const int number : {1, 2, 3}) put_constant(model_, number, number);
  start();
  wait_for(3);
  for (const int number : {1, 2, 3})
    wait_until([&] { return version(number).state == VersionState::ready; });
  for (const int number : {1, 2, 3}) EXPECT_EQ(ask(std::to_string(number)), number);
  put_text(model_ / "config.toml", std::string("version_policy = \"1,2\"\n") + kConstantConfig);
  wait_for(2);
  wait_until([&] { return version(3).state == VersionState::waiting; });
}

// Though others, which come with it, are still being loaded.
TEST_F(RepositoryTest, TheNewestAnswersFromTheMomentItIsReady) {
  put_text(model_ / "config.toml", std::string("version_policy = \"all\"\n") + kConstantConfig);
  put_constant(model_, 1, 1);
  start();
  wait_for(1);
  for (const int newest : {6, 11, 16}) {
    for (int number = newest; number > newest - 5; --number) put_constant(model_, number, number);
    wait_until([&] { return version(newest).state == VersionState::ready; });
    EXPECT_EQ(ask(), newest);
  }
}

TEST_F(RepositoryTest, AWrongConfigurationIsNamedWithItsLineAndTheOldOneStays) {
  put_constant(model_, 1, 1);
  start();
  wait_for(1);
  put_text(model_ / "config.toml", "max_batch_size = 0\nmax_batches = 3\n");
  wait_until([&] { return !repository_->status("m").problem.empty(); });
  EXPECT_TRUE(contains(repository_->status("m").problem,
                       "config.toml, line 2: 'max_batches' is no setting"))
      << repository_->status("m").problem;
  EXPECT_EQ(ask(), 1);
}

TEST_F(RepositoryTest, NoRequestFailsWhileVersionsChange) {
  put_constant(model_, 1, 1);
  start();
  wait_for(1);
  std::atomic<bool> stop = false;
  std::atomic<int> newest = 1;
  std::atomic<int> asked = 0;
  std::vector<std::thread> clients;
  for (int client = 0; client < 4; ++client) {
    clients.emplace_back([&] {
      while (!stop) {
        const float value = ask();
        // A whole number, and none that was not there yet.
        EXPECT_TRUE(value == static_cast<float>(static_cast<int>(value)) && value >= 1 &&
                    value <= static_cast<float>(newest.load()))
            << value;
        ++asked;
      }
    });
  }
  for (int number = 2; number <= 10; ++number) {
    newest = number;
    put_constant(model_, number, number);
    wait_for(static_cast<float>(number));
  }
  repository_->roll_back("m");
  wait_for(9);
  stop = true;
  for (auto& client : clients) client.join();
  EXPECT_GT(asked, 10);
}

TEST(RepositoryStart, SaysWhatIsWrong) {
  EXPECT_TRUE(contains(error_of([] { Repository({.directory = "/nonexistent"}); }),
                       "/nonexistent: is no folder; expected a model repository"));
}

}  // namespace
}  // namespace sullae::testing
