// Files in S3 and in HDFS, over a server that answers as theirs do, and fails as it is told to.
#include "storage/storage.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <thread>

#include "support/errors.h"
#include "support/store_server.h"
#include "support/temporary_directory.h"
#include "support/variable.h"

namespace sullae::testing {
namespace {

using namespace storage;

std::string all_of(const std::filesystem::path& file) {
  const auto reader = open_remote(file, storage::status(file).value());
  std::string content(reader->size(), '\0');
  reader->read(0, content.data(), content.size());
  return content;
}

std::vector<std::string> names_in(const std::filesystem::path& folder) {
  std::vector<std::string> names;
  for (const auto& entry : list(folder))
    names.push_back(entry.name + (entry.status.is_folder ? "/" : ""));
  return names;
}

// What cannot be seen is not taken for what is not there.
TEST(LocalFiles, ThatOthersHaveForThemselvesAreNotAbsent) {
  const TemporaryDirectory directory;
  std::filesystem::create_directory(directory.path() / "own");
  const auto file = directory.path() / "own" / "file";
  EXPECT_FALSE(storage::status(file).has_value());
  EXPECT_FALSE(storage::status(file / "below").has_value());
  std::filesystem::permissions(directory.path() / "own", std::filesystem::perms::none);
  const auto user = ::geteuid();
  constexpr uid_t kNobody = 65534;
  ASSERT_EQ(::seteuid(user == 0 ? kNobody : user), 0);
  const auto error = error_of<InputError>([&] { storage::status(file); });
  ASSERT_EQ(::seteuid(user), 0);
  std::filesystem::permissions(directory.path() / "own", std::filesystem::perms::owner_all);
  EXPECT_EQ(error, file.string() + ": Permission denied");
}

TEST(LocalFiles, AreNotThoseOfStoresThatThereAreNot) {
  EXPECT_EQ(error_of<InputError>([] { storage::status("hdfs://names/x"); }),
            "hdfs://names/x: there is no store 'hdfs://' here: expected a path, s3://BUCKET/PATH, "
            "webhdfs://HOST:PORT/PATH, swebhdfs://HOST:PORT/PATH; HDFS is read by WebHDFS: "
            "webhdfs://NAMENODE:9870/PATH");
  EXPECT_TRUE(contains(error_of<InputError>([] { storage::is_remote("file:///tmp"); }),
                       "there is no store 'file://' here"));
  EXPECT_FALSE(storage::is_remote("kafka://host:9092/topic"));
  EXPECT_FALSE(storage::is_remote("/tmp/a://b"));
}

class Stores : public ::testing::TestWithParam<const char*> {
 protected:
  std::filesystem::path at(const std::string& path) const {
    return GetParam() == std::string("s3") ? server_.s3(path) : server_.webhdfs(path);
  }
  const StoreServer& server_ = StoreServer::empty();
};
INSTANTIATE_TEST_SUITE_P(All, Stores, ::testing::Values("s3", "webhdfs"));

TEST_P(Stores, WhatIsWrittenIsThereAndIsRead) {
  EXPECT_FALSE(storage::exists(at("a/b.txt")));
  storage::write_file(at("a/b.txt"), "one");
  storage::write_file(at("a/b.txt"), "other");
  EXPECT_EQ(storage::read_file(at("a/b.txt"), 100), "other");
  const auto status = storage::status(at("a/b.txt")).value();
  EXPECT_FALSE(status.is_folder);
  EXPECT_EQ(status.bytes, 5U);
  EXPECT_TRUE(is_folder(at("a")));
  EXPECT_TRUE(is_folder(at("a/")));
  EXPECT_FALSE(storage::exists(at("a/b")));
  storage::write_file(at("empty"), "");
  EXPECT_EQ(storage::status(at("empty")).value().bytes, 0U);
  EXPECT_EQ(storage::read_file(at("empty"), 1), "");
  // Names as people give them.
  storage::write_file(at("음악/a b+c=100%?.txt"), "x");
  EXPECT_EQ(names_in(at("음악")), (std::vector<std::string>{"a b+c=100%?.txt"}));
  EXPECT_EQ(storage::read_file(at("음악/a b+c=100%?.txt"), 1), "x");
}

TEST_P(Stores, FoldersAreListedInPagesAndRemoved) {
  std::vector<std::string> expected;
  for (int i = 0; i < 8; ++i) {
    storage::write_file(at("f/" + std::to_string(i)), "x");
    expected.push_back(std::to_string(i));
  }
  storage::write_file(at("f/sub/deep/x"), "x");
  storage::write_file(at("f2"), "x");
  expected.push_back("sub/");
  EXPECT_EQ(names_in(at("f")), expected);
  EXPECT_EQ(names_in(at("f/sub")), (std::vector<std::string>{"deep/"}));
  storage::remove(at("f"));
  EXPECT_FALSE(storage::exists(at("f")));
  EXPECT_FALSE(storage::exists(at("f/sub/deep/x")));
  EXPECT_TRUE(storage::exists(at("f2")));
  storage::remove(at("f"));  // again
}

TEST_P(Stores, FilesAreReadInPiecesByManyThreads) {
  std::string content;
  for (unsigned i = 0; content.size() < (std::size_t{9} << 20) + 7; ++i)
    content += std::to_string(i) + ',';
  storage::write_file(at("big"), content);
  const auto file = open_remote(at("big"), storage::status(at("big")).value());
  ASSERT_EQ(file->size(), content.size());
  std::vector<std::thread> threads;
  std::atomic<int> wrong = 0;
  for (std::size_t thread = 0; thread < 4; ++thread) {
    threads.emplace_back([&, thread] {
      for (std::size_t n = 0; n < 50; ++n) {
        const std::size_t offset = (thread * 50 + n) * 7'919'311 % content.size();
        const std::size_t bytes = std::min<std::size_t>(content.size() - offset, n * 31'337);
        std::string piece(bytes, '\0');
        file->read(offset, piece.data(), bytes);
        if (piece != content.substr(offset, bytes)) ++wrong;
      }
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_TRUE(contains(error_of<InputError>([&] {
                         char byte = 0;
                         file->read(content.size(), &byte, 1);
                       }),
                       "is truncated"));
}

TEST_P(Stores, WhatBreaksOffIsGoneOnWith) {
  const std::string content(100'000, 'x');
  storage::write_file(at("f"), content);
  const auto status = storage::status(at("f")).value();
  for (const char* faults :
       {R"(["503"])", R"(["drop", "503", "drop"])", R"(["half", "half", "half"])",
        R"(["ok", "half", "drop", "ok", "half"])"}) {
    server_.fail(faults);
    std::string read(content.size(), '\0');
    open_remote(at("f"), status)->read(0, read.data(), read.size());
    EXPECT_EQ(read, content) << faults;
    server_.fail(faults);
    storage::write_file(at("g"), content);
    server_.fail("[]");
    EXPECT_EQ(all_of(at("g")), content) << faults;
    server_.fail(faults);
    EXPECT_TRUE(storage::exists(at("g")));
    server_.fail(faults);
    storage::remove(at("g"));
  }
}

TEST_P(Stores, AStoreThatDoesNotAnswerIsNamed) {
  storage::write_file(at("f"), "x");
  std::string faults = "[";
  for (int i = 0; i < 50; ++i) faults += std::string(i > 0 ? "," : "") + "\"503\"";
  server_.fail(faults + "]");
  const Variable timeout("SULLAE_STORAGE_TIMEOUT", "2");
  EXPECT_EQ(error_of([&] { storage::exists(at("f")); }),
            at("f").string() + ": the answer is 503; tried for 2 s (SULLAE_STORAGE_TIMEOUT)");
}

// The time is that of failures in a row: what is large may take longer to fail for the first time.
TEST_P(Stores, AnAnswerThatFailsLateIsTriedAgain) {
  const Variable timeout("SULLAE_STORAGE_TIMEOUT", "1");
  server_.fail(R"(["slow 503"])");
  storage::write_file(at("f"), "content");
  server_.fail("[]");
  EXPECT_EQ(all_of(at("f")), "content");
}

TEST_P(Stores, AFileThatChangesWhileItIsReadIsNotMixed) {
  storage::write_file(at("f"), "first");
  const auto reader = open_remote(at("f"), storage::status(at("f")).value());
  std::this_thread::sleep_for(std::chrono::milliseconds{5});
  storage::write_file(at("f"), "other");
  char byte = 0;
  EXPECT_EQ(error_of<InputError>([&] { reader->read(0, &byte, 1); }),
            at("f").string() + ": has changed while it was read");
}

TEST_P(Stores, SayWhatIsNotThere) {
  EXPECT_EQ(error_of<InputError>([&] { storage::read_file(at("none"), 1); }),
            at("none").string() + ": there is no such file");
  storage::write_file(at("long"), "12");
  EXPECT_EQ(error_of<InputError>([&] { storage::read_file(at("long"), 1); }),
            at("long").string() + ": has 2 bytes, expected at most 1");
}

TEST_P(Stores, WhatIsNotCommittedIsNotThere) {
  {
    NewFile file(at("f"));
    file.write("abc", 3);
  }
  EXPECT_FALSE(storage::exists(at("f")));
  NewFile file(at("f"));
  file.write("ab", 2);
  file.write("c", 1);
  file.commit();
  EXPECT_EQ(storage::read_file(at("f"), 10), "abc");
  EXPECT_EQ(list(at("")).size(), 1U);
}

TEST(S3, CredentialsThatHaveExpiredAreLookedForAgain) {
  const StoreServer& server = StoreServer::empty();
  const TemporaryDirectory directory;
  const auto file = directory.path() / "credentials";
  const auto put = [&](const std::string& key) {
    sullae::write_file(file,
                       "[default]\naws_access_key_id=" + key + "\naws_secret_access_key=secret\n");
  };
  ::unsetenv("AWS_ACCESS_KEY_ID");
  ::unsetenv("AWS_SECRET_ACCESS_KEY");
  ::setenv("AWS_SHARED_CREDENTIALS_FILE", file.c_str(), 1);
  server.put("f", "x");
  put("old");
  // Of another bucket, whose store has found none yet.
  EXPECT_EQ(error_of([&] { storage::list("s3://bucket-2"); }),
            "s3://bucket-2/: the answer is 400, ExpiredToken: The provided token has expired.");
  put("test");
  EXPECT_EQ(storage::list("s3://bucket-2").size(), 1U);
  for (const auto& [name, value] : server.environment()) ::setenv(name.c_str(), value.c_str(), 1);
  ::unsetenv("AWS_SHARED_CREDENTIALS_FILE");
}

TEST(S3, LargeFilesGoInParts) {
  const auto& server = StoreServer::empty();
  const auto unfinished = [&] {
    return run_program({"curl", "-sf", server.url("/uploads")}).standard_output;
  };
  // Of two parts, the second of one byte.
  std::string content((std::size_t{64} << 20) + 1, '\0');
  for (std::size_t i = 0; i < content.size(); i += 4099) content[i] = static_cast<char>(i / 4099);
  for (const char* faults : {"[]", R"(["503", "drop", "ok", "drop", "ok", "503", "ok", "late"])",
                             R"(["ok", "ok", "ok", "done"])"}) {
    server.fail(faults);
    storage::write_file(server.s3("large"), content);
    server.fail("[]");
    EXPECT_TRUE(all_of(server.s3("large")) == content) << faults;
  }
  storage::remove(server.s3("large"));
  server.fail(R"(["ok", "ok", "403"])");
  EXPECT_TRUE(contains(
      error_of<AccessDenied>([&] { storage::write_file(server.s3("large"), content); }),
      "s3://bucket/large: the answer is 403, AccessDenied: Access Denied (credentials of "));
  EXPECT_FALSE(storage::exists(server.s3("large")));
  EXPECT_EQ(unfinished(), "0");
}

TEST(S3, RefusalsAreNamed) {
  const StoreServer& server = StoreServer::empty();
  const auto error = [&](const char* key, const char* secret, const std::string& path) {
    const auto result =
        run_program({sullae_program(), "data", "inspect", path},
                    {{"AWS_ACCESS_KEY_ID", key}, {"AWS_SECRET_ACCESS_KEY", secret}});
    EXPECT_EQ(result.exit_code, 1);
    return result.standard_error;
  };
  server.put("d/a.csv", "label,text\na,b\nb,c\n");
  EXPECT_TRUE(contains(error("old", "secret", "s3://bucket/d/*.csv"),
                       "ExpiredToken: The provided token has expired."));
  EXPECT_TRUE(
      contains(error("other", "secret", "s3://bucket/d/*.csv"),
               "InvalidAccessKeyId: The AWS Access Key Id you provided does not exist in our "
               "records. (credentials of AWS_ACCESS_KEY_ID)"));
  EXPECT_TRUE(contains(error("test", "wrong", "s3://bucket/d/*.csv"), "SignatureDoesNotMatch"));
  EXPECT_TRUE(contains(error("test", "secret", "s3://other/d"), "NoSuchBucket"));
  EXPECT_TRUE(
      contains(error("test", "secret", "s3://bucket/none"), "there is no such file or folder"));
  EXPECT_TRUE(contains(error("test", "secret", "s3:///none"), "expected s3://BUCKET/PATH"));
}

// As where a policy lets list and read a part of a bucket.
TEST(S3, WhatMayNotBeAskedForIsLookedForInLists) {
  const StoreServer& server = StoreServer::empty();
  server.put("d/f", "x");
  server.put("d/sub/g", "x");
  server.put("d/sub_$folder$", "");
  EXPECT_EQ(names_in(server.s3("d")), (std::vector<std::string>{"f", "sub/"}));
  server.fail(R"(["403"])");
  EXPECT_FALSE(storage::exists(server.s3("d/_SUCCESS")));
  server.fail(R"(["403"])");
  EXPECT_TRUE(is_folder(server.s3("d/sub")));
  server.fail(R"(["403", "403"])");
  EXPECT_TRUE(is_folder(server.s3("d/sub")));
  server.fail(R"(["403"])");
  EXPECT_EQ(error_of<AccessDenied>([&] { storage::exists(server.s3("d/f")); }),
            server.s3("d/f") + ": the answer is 403 (credentials of AWS_ACCESS_KEY_ID)");
}

// Consoles and Hadoop write files in the place of folders, which would be there without anything.
TEST(S3, FoldersAreRemovedWithTheirMarks) {
  const StoreServer& server = StoreServer::empty();
  for (const char* const key : {"d/", "d_$folder$", "d/sub/", "d/sub_$folder$", "d/none/"})
    server.put(key, "");
  server.put("d/sub/x", "1");
  server.put("d2/", "");
  storage::remove(server.s3("d"));
  EXPECT_FALSE(storage::exists(server.s3("d")));
  EXPECT_FALSE(storage::exists(server.s3("d/none")));
  EXPECT_TRUE(storage::exists(server.s3("d2")));
}

// Whichever is asked first: HEAD, whose answer has no body, or a list.
TEST(S3, ABucketOfAnotherRegionIsFound) {
  StoreServer::empty().put("f", "content");
  EXPECT_EQ(names_in("s3://far/"), std::vector<std::string>{"f"});
  EXPECT_EQ(storage::read_file("s3://far/f", 100), "content");
  const auto result = run_program({sullae_program(), "data", "inspect", "s3://far/f"});
  EXPECT_FALSE(contains(result.standard_error, "the answer is")) << result.standard_error;
}

TEST(S3, AStoreThatGivesNoPartsIsNotTakenForOneThatDoes) {
  const StoreServer& server = StoreServer::empty();
  server.put("f", std::string(1000, 'x'));
  const auto reader = open_remote(server.s3("f"), storage::status(server.s3("f")).value());
  server.fail(R"(["whole"])");
  char byte = 0;
  EXPECT_TRUE(contains(error_of([&] { reader->read(999, &byte, 1); }), "gives no parts of files"));
}

}  // namespace
}  // namespace sullae::testing
