// Folders that come and go, cannot be read, lead elsewhere, or are no models: they harm nobody
// else.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <atomic>
#include <thread>

#include "base/request_error.h"
#include "serve/models.h"
#include "serve/repository/repository.h"
#include "support/errors.h"
#include "support/temporary_directory.h"
#include "support/wait_until.h"

namespace sullae::testing {
namespace {

using namespace serve;
namespace fs = std::filesystem;

class Folders : public ::testing::Test {
 protected:
  Folders() {
    put_text(model_ / "config.toml", kConstantConfig);
    put_constant(model_, 1, 1);
  }
  void start() {
    repository_.emplace(
        RepositoryOptions{.directory = directory_.path(), .poll = std::chrono::milliseconds(5)});
    repository_->start();
  }
  bool answers(const std::string& model) {
    try {
      repository_->choose(model, "");
      return true;
    } catch (const RequestError&) {
      return false;
    }
  }
  std::string refusal(const std::string& model) {
    return error_of([&] { repository_->choose(model, ""); });
  }
  // After this the repository has looked at least once.
  void wait_for_a_look() {
    put_text(directory_.path() / "mark" / "config.toml", kConstantConfig);
    put_constant(directory_.path() / "mark", 1, 1);
    wait_until([&] { return answers("mark"); });
    take_away(directory_.path() / "mark");
    wait_until([&] { return !answers("mark"); });
  }

  TemporaryDirectory directory_;
  fs::path model_ = directory_.path() / "m";
  std::optional<Repository> repository_;
};

TEST_F(Folders, ThatComeAndGoAllTheTimeAreStood) {
  start();
  std::atomic<bool> stop = false;
  std::thread other([&] {
    for (int i = 0; !stop; ++i) {
      const auto deep = model_ / "2" / ("a" + std::to_string(i % 50)) / "b";
      std::error_code ignored;
      fs::create_directories(deep, ignored);
      fs::create_directories(directory_.path() / ("x" + std::to_string(i % 7)) / "1", ignored);
      fs::remove_all(model_ / "2", ignored);
      fs::remove_all(directory_.path() / ("x" + std::to_string(i % 7)), ignored);
    }
  });
  const auto end = Clock::now() + std::chrono::milliseconds(1500);
  while (Clock::now() < end) {
    EXPECT_TRUE(answers("m"));
    EXPECT_TRUE(repository_->ready());
    repository_->index();
  }
  stop = true;
  other.join();
}

TEST_F(Folders, AConfigurationThatCannotBeReadIsAProblemOfItsModelAlone) {
  put_text(directory_.path() / "n" / "config.toml", kConstantConfig);
  put_constant(directory_.path() / "n", 1, 1);
  start();
  fs::remove(model_ / "config.toml");
  fs::create_symlink("config.toml", model_ / "config.toml");  // leads to itself
  wait_until([&] { return !repository_->status("m").problem.empty(); });
  EXPECT_TRUE(contains(repository_->status("m").problem, "config.toml: cannot be read"));
  EXPECT_TRUE(answers("m"));
  EXPECT_TRUE(answers("n"));
  EXPECT_TRUE(repository_->status("n").problem.empty());
}

TEST_F(Folders, WithoutVersionsAndConfigurationAreNoModels) {
  start();
  EXPECT_TRUE(repository_->ready());
  fs::create_directory(directory_.path() / "lost+found");
  fs::create_directory(directory_.path() / "x");
  wait_for_a_look();
  EXPECT_TRUE(repository_->ready());
  EXPECT_EQ(repository_->index().size(), 1U);
  take_away(model_);
  wait_until([&] { return repository_->index().empty(); });
  EXPECT_TRUE(contains(refusal("m"), "there is no model 'm'"));
}

TEST_F(Folders, AModelThatCannotBeLoadedIsNotReadyAndTheServerIs) {
  put_text(directory_.path() / "broken" / "1" / "model.pt", "no module");
  start();
  EXPECT_TRUE(repository_->ready());
  EXPECT_TRUE(contains(refusal("broken"), "has no version that is ready"));
  take_away(model_);
  wait_until([&] { return !repository_->ready(); });
}

TEST_F(Folders, LinksOutOfTheRepositoryAreRefused) {
  const TemporaryDirectory outside;
  put_text(outside.path() / "o" / "config.toml", kConstantConfig);
  put_constant(outside.path() / "o", 1, 1);
  fs::create_symlink(outside.path() / "o", directory_.path() / "linked");
  fs::create_symlink(outside.path() / "o" / "1", model_ / "2");
  fs::create_symlink("m", directory_.path() / "alias");  // within
  start();
  EXPECT_TRUE(contains(refusal("linked"), "there is no model 'linked'"));
  EXPECT_TRUE(answers("alias"));
  // The version that is a link, and with it the model's newer ones, is not served.
  for (const auto& version : repository_->status("m").versions) {
    EXPECT_TRUE(version.number != 2 ||
                contains(version.reason, "is a link that leads out of the model repository"))
        << version.reason;
  }
}

TEST_F(Folders, LinksInCirclesAndNotesThatAreFoldersAreStood) {
  fs::create_directory(model_ / "1" / "more");
  fs::create_symlink(".", model_ / "1" / "a");
  fs::create_symlink(".", model_ / "1" / "b");
  fs::create_directory(model_ / ".serving.json");
  start();
  EXPECT_TRUE(answers("m"));
}

TEST_F(Folders, NotesThatCannotBeAreIgnored) {
  put_text(model_ / ".serving.json", R"({"withdrawn": [], "canary": 1, "canary_percent": 300})");
  start();
  EXPECT_TRUE(answers("m"));
}

TEST_F(Folders, WhatALinkStandsForNeedNotBeThereYet) {
  const TemporaryDirectory outside;
  fs::create_symlink(outside.path() / "later", model_ / "examples.db");
  start();
  EXPECT_TRUE(contains(refusal("m"), "is a link that leads out of the model repository"))
      << refusal("m");
}

TEST_F(Folders, AWrongConfigurationRefusesVersionsThatAreNewUnderIt) {
  put_text(model_ / "config.toml",
           std::string("[[golden]]\ninstance = [1, 2]\nexpect = [99.0]\n") + kConstantConfig);
  put_text(model_ / "config.toml", std::string("max_batches = 3\n") + kConstantConfig);
  start();
  EXPECT_TRUE(contains(refusal("m"), "'max_batches' is no setting")) << refusal("m");
  put_text(model_ / "config.toml", kConstantConfig);
  wait_until([&] { return answers("m"); });
}

TEST_F(Folders, ThatCannotBeListedStayAsTheyWere) {
  put_text(model_ / "config.toml", std::string("version_policy = \"all\"\n") + kConstantConfig);
  put_constant(model_, 2, 2);
  start();
  EXPECT_EQ(repository_->choose("m", "1")->number(), 1);
  // No entry is gone, and none can be seen: as with a network's file system, or without
  // descriptors.
  const auto away = directory_.path().string() + ".away";
  fs::create_symlink(directory_.path().filename(), away);
  const auto exchange = [&] {
    ASSERT_EQ(
        ::renameat2(AT_FDCWD, away.c_str(), AT_FDCWD, directory_.path().c_str(), RENAME_EXCHANGE),
        0);
  };
  exchange();  // its name is now a link that leads to itself
  wait_until([&] { return contains(repository_->status("m").problem, "cannot be listed"); });
  EXPECT_EQ(repository_->choose("m", "1")->number(), 1);
  EXPECT_EQ(repository_->choose("m", "2")->number(), 2);
  exchange();
  fs::remove(away);
  wait_until([&] { return repository_->status("m").problem.empty(); });
  EXPECT_EQ(repository_->choose("m", "1")->number(), 1);
}

TEST_F(Folders, AreServedByOneServer) {
  start();
  const auto error = error_of([&] { Repository other({.directory = directory_.path()}); });
  EXPECT_TRUE(contains(error, "another server serves this repository")) << error;
  repository_.reset();
  start();
}

TEST_F(Folders, ARollBackToAVersionThatIsLoadedIsThereWhenItReturns) {
  put_text(model_ / "config.toml", std::string("version_policy = \"all\"\n") + kConstantConfig);
  put_constant(model_, 2, 2);
  start();
  ServedModel model("m", directory_.path());
  model.update(true);
  EXPECT_EQ(model.choose(std::nullopt)->number(), 2);
  model.roll_back();  // before any update()
  EXPECT_EQ(model.choose(std::nullopt)->number(), 1);
}

TEST_F(Folders, LookingTakesNoTurnOfTheCanary) {
  put_text(model_ / "config.toml", std::string("new_version_percent = 50\n") + kConstantConfig);
  start();
  put_constant(model_, 2, 2);
  wait_until([&] { return repository_->status("m").canary == 2; });
  int canary = 0;
  for (int i = 0; i < 100; ++i) {
    if (repository_->choose("m", "")->number() == 2) ++canary;
    EXPECT_EQ(repository_->look_up("m", "")->number(), 1);
  }
  EXPECT_EQ(canary, 50);
}

// Reading a pipe would wait for whoever writes to it.
TEST_F(Folders, WhatIsNoRegularFileIsRefused) {
  const auto make_pipe = [](const fs::path& file) {
    fs::create_directories(file.parent_path());
    ASSERT_EQ(::mkfifo(file.c_str(), 0600), 0);
  };
  const auto put = [&](const std::string& model, const std::string& pipe) {
    put_text(directory_.path() / model / "config.toml", kConstantConfig);
    if (pipe != "1/model.pt") put_constant(directory_.path() / model, 1, 1);
    fs::remove(directory_.path() / model / pipe);
    make_pipe(directory_.path() / model / pipe);
  };
  put("config", "config.toml");
  put("script", "1/model.pt");
  put("checkpoint", "1/model.ckpt");
  put_text_model(directory_.path() / "words");
  fs::remove(directory_.path() / "words" / "words.txt");
  make_pipe(directory_.path() / "words" / "words.txt");
  make_pipe(directory_.path() / "m" / ".serving.json");
  start();
  wait_for_a_look();
  EXPECT_TRUE(answers("m"));
  for (const char* model : {"config", "script", "checkpoint", "words"})
    EXPECT_TRUE(contains(refusal(model), "is no regular file")) << model << ": " << refusal(model);
}

TEST_F(Folders, ALinkThatLeadsInACircleIsNoVersion) {
  start();
  wait_until([&] { return answers("m"); });
  fs::create_symlink("7", model_ / "7");
  put_constant(model_, 8, 8);
  wait_until([&] { return repository_->status("m").serving == 8; });
}

}  // namespace
}  // namespace sullae::testing
