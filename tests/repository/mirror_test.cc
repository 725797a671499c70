// Model repositories in S3 and HDFS, over a server that answers as theirs do.
#include "repository/mirror.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <set>
#include <string>
#include <vector>

#include "base/file_lock.h"
#include "repository/publish.h"
#include "repository/remote_model.h"
#include "storage/storage.h"
#include "support/content_of.h"
#include "support/errors.h"
#include "support/store_server.h"
#include "support/temporary_directory.h"
#include "support/variable.h"

namespace sullae::testing {
namespace {

namespace fs = std::filesystem;
using namespace repository;

std::set<std::int64_t> all(const fs::path&, const std::set<std::int64_t>& there) { return there; }
std::set<std::int64_t> newest(const fs::path&, const std::set<std::int64_t>& there) {
  return there.empty() ? there : std::set{*there.rbegin()};
}

class Mirrors : public ::testing::TestWithParam<const char*> {
 protected:
  Mirrors() {
    put("m/config.toml", "a = 1\n");
    put("m/1/model.pt", "one");
    put("m/1/words/list.txt", "a\nb\n");
  }
  fs::path at(const std::string& path) const {
    return GetParam() == std::string("s3") ? server_.s3("models/" + path)
                                           : server_.webhdfs("bucket/models/" + path);
  }
  void put(const std::string& path, const std::string& content) const {
    storage::write_file(at(path), content);
  }
  Mirror mirror() const { return {at(""), here_}; }
  // All files of the copy but for hidden ones.
  std::set<std::string> copied() const {
    std::set<std::string> files;
    for (const auto& entry : fs::recursive_directory_iterator(here_)) {
      const auto file = fs::relative(entry.path(), here_).string();
      if (entry.is_regular_file() && file.find("/.") == file.npos && file.front() != '.')
        files.insert(file);
    }
    return files;
  }
  std::string content(const std::string& file) const { return content_of(here_ / file); }

  const StoreServer& server_ = StoreServer::empty();
  TemporaryDirectory directory_;
  fs::path here_ = directory_.path() / "copy";
};
INSTANTIATE_TEST_SUITE_P(All, Mirrors, ::testing::Values("s3", "webhdfs"));

TEST_P(Mirrors, HaveWhatTheStoreHas) {
  put("other/3/model.ckpt", "three");
  put(".hidden/1/model.pt", "nothing of anybody's");
  mirror().update(&all);
  EXPECT_EQ(copied(), (std::set<std::string>{"m/1/model.pt", "m/1/words/list.txt", "m/config.toml",
                                             "other/3/model.ckpt"}));
  EXPECT_EQ(content("m/1/words/list.txt"), "a\nb\n");
}

TEST_P(Mirrors, CopyNothingTwice) {
  constexpr long long kBytes = 1 << 20;
  put("m/1/model.pt", std::string(kBytes, 'a'));
  mirror().update(&all);
  const auto sent = server_.bytes_sent();
  EXPECT_GE(sent, kBytes);
  auto again = mirror();
  again.update(&all);
  again.update(&all);
  EXPECT_LT(server_.bytes_sent(), sent + kBytes) << "lists alone";
}

TEST_P(Mirrors, CopyWhatHasChanged) {
  auto copy = mirror();
  copy.update(&all);
  put("m/config.toml", "a = 2\n");
  put("m/1/more.txt", "more");
  put("m/2/model.pt", "two");
  copy.update(&all);
  EXPECT_EQ(content("m/config.toml"), "a = 2\n");
  EXPECT_EQ(content("m/1/more.txt"), "more");
  EXPECT_EQ(content("m/2/model.pt"), "two");
}

TEST_P(Mirrors, DropWhatIsGoneAndKeepWhatOthersPutBesideIt) {
  put("m/2/model.pt", "two");
  put("m/notes.txt", "notes");
  put("n/1/model.pt", "one");
  auto copy = mirror();
  copy.update(&all);
  std::ofstream(here_ / "n" / "examples.db") << "samples";
  storage::remove(at("m/1"));
  storage::remove(at("m/notes.txt"));
  storage::remove(at("n"));
  copy.update(&all);
  EXPECT_EQ(copied(), (std::set<std::string>{"m/2/model.pt", "m/config.toml", "n/examples.db"}));
}

TEST_P(Mirrors, HaveTheVersionsThatAreWanted) {
  put("m/2/model.pt", "two");
  auto copy = mirror();
  copy.update(&newest);
  EXPECT_EQ(copied(), (std::set<std::string>{"m/2/model.pt", "m/config.toml"}));
  put("m/10/model.pt", "ten");
  copy.update(&newest);
  EXPECT_EQ(copied(), (std::set<std::string>{"m/10/model.pt", "m/config.toml"}));
  copy.add("m", 1);
  EXPECT_EQ(content("m/1/model.pt"), "one");
  EXPECT_EQ(content("m/10/model.pt"), "ten");
}

// Whoever copies a version to a store sends one file after the other.
TEST_P(Mirrors, WaitForAVersionsModel) {
  put("m/2/words/list.txt", "c\n");
  auto copy = mirror();
  copy.update(&all);
  EXPECT_FALSE(fs::exists(here_ / "m" / "2"));
  put("m/2/model.ckpt", "two");
  copy.update(&all);
  EXPECT_EQ(content("m/2/words/list.txt"), "c\n");
}

// Another version takes its place among those that are wanted.
TEST_P(Mirrors, CountNoVersionWithoutAModel) {
  put("m/2/words.txt", "of an export that failed");
  mirror().update(&newest);
  EXPECT_EQ(copied(),
            (std::set<std::string>{"m/1/model.pt", "m/1/words/list.txt", "m/config.toml"}));
}

TEST_P(Mirrors, TakeNoFolderOfOtherThingsForAModel) {
  put("data/part-00000.csv", "a,b\n");
  put("alone.txt", "a");
  mirror().update(&all);
  EXPECT_FALSE(fs::exists(here_ / "data"));
}

// What operators have corrected here is theirs.
TEST_P(Mirrors, NeverWriteOverWhatTheyHaveNotCopied) {
  put("m/examples.db", "theirs");
  put("m/words.txt", "theirs");
  fs::create_directories(here_ / "m");
  std::ofstream(here_ / "m" / "examples.db") << "ours";
  std::ofstream(here_ / "m" / "words.txt") << "ours";
  auto copy = mirror();
  copy.update(&all);
  storage::remove(at("m/examples.db"));
  storage::remove(at("m/words.txt"));
  copy.update(&all);
  EXPECT_EQ(content("m/examples.db"), "ours");
  EXPECT_EQ(content("m/words.txt"), "ours");
}

TEST_P(Mirrors, CopyTheOthersWhereOneModelCannotBeHad) {
  put("a/1/model.pt", "a");
  put("z/1/model.pt", "z");
  fs::create_directories(here_);
  std::ofstream(here_ / "a") << "is no folder";
  EXPECT_NE(error_of([&] { mirror().update(&all); }), "");
  EXPECT_EQ(content("z/1/model.pt"), "z");
  fs::remove(here_ / "a");
  mirror().update(&all);
  EXPECT_EQ(content("a/1/model.pt"), "a");
}

// A store that lists nothing has lost its files, or answers wrongly: what was copied is all that
// there is.
TEST_P(Mirrors, KeepWhatTheyHaveWhereTheRepositoryIsGone) {
  auto copy = mirror();
  copy.update(&all);
  storage::remove(at("").parent_path());
  EXPECT_NE(error_of<NoRepository>([&] { copy.update(&all); }), "");
  EXPECT_EQ(content("m/1/model.pt"), "one");
}

// Keys may be called anything.
TEST(S3Mirror, WritesNowhereElse) {
  const auto& server = StoreServer::empty();
  const TemporaryDirectory directory;
  server.put("models/m/1/model.pt", "one");
  server.put("models/m/1/-a/../../../../../escaped.txt", "elsewhere");
  server.put("models/../m2/1/model.pt", "elsewhere");
  Mirror(server.s3("models"), directory.path() / "a" / "b" / "copy").update(&all);
  for (const auto& entry : fs::recursive_directory_iterator(directory.path()))
    EXPECT_NE(entry.path().filename(), "escaped.txt") << entry.path();
  EXPECT_TRUE(fs::exists(directory.path() / "a" / "b" / "copy" / "m" / "1" / "model.pt"));
}

TEST_P(Mirrors, LeaveAVersionThatWasMadeHere) {
  auto copy = mirror();
  copy.update(&all);
  fs::create_directories(here_ / "m" / "2");
  std::ofstream(here_ / "m" / "2" / "model.pt") << "ours";
  put("m/2/model.pt", "theirs");
  copy.update(&all);
  EXPECT_EQ(content("m/2/model.pt"), "ours");
}

TEST_P(Mirrors, StayAsTheyAreWhereTheStoreFails) {
  auto copy = mirror();
  copy.update(&all);
  put("m/2/model.pt", "two");
  const Variable timeout("SULLAE_STORAGE_TIMEOUT", "0.2");
  server_.fail(R"(["403", "403", "403", "403"])");
  EXPECT_NE(error_of([&] { copy.update(&all); }), "");
  EXPECT_EQ(content("m/1/model.pt"), "one");
  EXPECT_FALSE(fs::exists(here_ / "m" / "2"));
  server_.fail("[]");
  copy.update(&all);
  EXPECT_EQ(content("m/2/model.pt"), "two");
}

// Whoever asks whether there is one has something to serve.
TEST_P(Mirrors, AreNoneBeforeSomethingWasCopied) {
  auto copy = mirror();
  const Variable timeout("SULLAE_STORAGE_TIMEOUT", "0.2");
  for (const char* faults :
       {R"(["403", "403", "403", "403"])", R"(["ok", "ok", "403", "403", "403"])",
        R"(["ok", "ok", "ok", "403", "403", "403", "403"])"}) {
    server_.fail(faults);
    EXPECT_NE(error_of([&] { copy.update(&all); }), "") << faults;
    EXPECT_FALSE(copy.has_copy()) << faults;
  }
  server_.fail("[]");
  copy.update(&all);
  EXPECT_TRUE(copy.has_copy());
}

TEST_P(Mirrors, CopyAllAgainWhereTheirRecordIsDamaged) {
  auto copy = mirror();
  copy.update(&all);
  std::ofstream(here_ / ".copy.json") << "{";
  put("m/1/model.pt", "another one");
  put("m/config.toml", "a = 3\n");
  copy.update(&all);
  EXPECT_EQ(content("m/1/model.pt"), "another one");
  EXPECT_EQ(content("m/config.toml"), "a = 3\n");
}

TEST_P(Mirrors, SayWhatIsNoRepository) {
  const auto error_at = [&](const std::string& path) {
    return error_of<InputError>([&] { Mirror(at(path), here_).update(&all); });
  };
  EXPECT_EQ(error_at("none"),
            at("none").string() +
                ": is no folder; expected a model repository: <model>/<version>/model.ckpt, "
                "model.pt or model.pt2");
  EXPECT_TRUE(error_at("m/").find("is a model; expected the folder that has it, a model "
                                  "repository: " +
                                  at("").parent_path().string()) != std::string::npos)
      << error_at("m/");
  mirror().update(&all);
  put("more/m/1/model.pt", "one");
  EXPECT_TRUE(contains(error_of<InputError>([&] { Mirror(at("more"), here_).update(&all); }),
                       here_.string() + ": is the copy of "));
}

TEST_P(Mirrors, AreWaitedForNoLongerThanIsSaid) {
  auto copy = mirror();
  const Variable timeout("SULLAE_MODEL_COPY_TIMEOUT", "0.05");
  const auto lock =
      lock_file(here_ / ".copy.lock", 0666, Deadline(std::chrono::seconds{1}, "none"));
  EXPECT_EQ(error_of<TimeoutError>([&] { copy.update(&all); }),
            here_.string() +
                ": another process has not copied what it copies there within 0.05 s "
                "(SULLAE_MODEL_COPY_TIMEOUT)");
}

TEST_P(Mirrors, FetchOneModel) {
  const Variable cache("XDG_CACHE_HOME", directory_.path().c_str());
  put("m/2/model.pt", "two");
  put("m/3/words.txt", "not whole yet");
  put("m.ckpt", "alone");
  const auto folder = fetch_model(at("m/"));
  EXPECT_EQ(content_of(folder / "model.pt"), "two");
  EXPECT_EQ(content_of(folder.parent_path() / "config.toml"), "a = 1\n");
  EXPECT_EQ(content_of(fetch_model(at("m/1")) / "model.pt"), "one");
  EXPECT_EQ(content_of(fetch_model(at("m.ckpt"))), "alone");
  // It is not there any more: its copy is none of what is.
  storage::remove(at("m/2"));
  EXPECT_EQ(content_of(fetch_model(at("m")) / "model.pt"), "one");
  EXPECT_EQ(error_of<InputError>([&] { fetch_model(at("none")); }),
            at("none").string() + ": there is no such model");
  put("empty/config.toml", "");
  EXPECT_TRUE(contains(error_of<InputError>([&] { fetch_model(at("empty")); }),
                       "empty: expected a checkpoint, or a model's folder in a repository"));
}

TEST_P(Mirrors, PublishTheNextVersion) {
  const auto publish = [&] {
    return publish_version(at("").parent_path(), "m", "a = 9\n", [](const fs::path& folder) {
      fs::create_directory(folder / "words");
      std::ofstream(folder / "model.pt") << "next";
      std::ofstream(folder / "words" / "list.txt") << "a\n";
    });
  };
  EXPECT_EQ(publish(), at("m/2"));
  EXPECT_EQ(publish(), at("m/3"));
  EXPECT_EQ(storage::read_file(at("m/config.toml"), 100), "a = 1\n") << "it was there";
  EXPECT_EQ(storage::read_file(at("m/3/words/list.txt"), 100), "a\n");
  EXPECT_EQ(publish_version(at("").parent_path(), "new", "a = 9\n",
                            [](const fs::path& folder) { std::ofstream(folder / "model.ckpt"); }),
            at("new/1"));
  EXPECT_EQ(storage::read_file(at("new/config.toml"), 100), "a = 9\n");
}

TEST(DefaultCopy, IsAFolderOfTheUsersCache) {
  const Variable cache("XDG_CACHE_HOME", "/cache");
  EXPECT_EQ(default_copy("s3://bucket/models/", "served"),
            "/cache/sullae/served/s3%3A%2F%2Fbucket%2Fmodels");
}

}  // namespace
}  // namespace sullae::testing
