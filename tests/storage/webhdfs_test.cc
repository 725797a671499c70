// What name nodes and data nodes of HDFS say, and when.
#include <gtest/gtest.h>

#include "storage/storage.h"
#include "support/errors.h"
#include "support/store_server.h"
#include "support/variable.h"

namespace sullae::testing {
namespace {

using namespace storage;

TEST(WebHdfs, ARefusalOfHttpFsIsNotTriedAgain) {
  const StoreServer& server = StoreServer::empty();
  server.put("f", "x");
  server.fail(R"(["refused"])");
  EXPECT_EQ(error_of([&] { storage::exists(server.webhdfs("f")); }),
            server.webhdfs("f") +
                ": the answer is 500, AccessControlException: Permission denied: user=tester");
  // Of a file there is nothing in it.
  EXPECT_TRUE(list(server.webhdfs("f")).empty());
}

// They come with the number of a refusal.
TEST(WebHdfs, ANameNodeThatIsNotReadyIsAskedAgain) {
  const StoreServer& server = StoreServer::empty();
  server.put("f", "x");
  for (const char* exception : {"RetriableException", "StandbyException", "SafeModeException"}) {
    server.fail(std::string("[\"") + exception + "\"]");
    EXPECT_TRUE(storage::exists(server.webhdfs("f"))) << exception;
    server.fail(std::string("[\"") + exception + "\"]");
    storage::write_file(server.webhdfs("g"), exception);
    EXPECT_EQ(storage::read_file(server.webhdfs("g"), 100), exception);
  }
  server.fail(R"(["AccessControlException"])");
  EXPECT_TRUE(contains(error_of<AccessDenied>([&] { storage::exists(server.webhdfs("f")); }),
                       "AccessControlException"));
}

// Half of one file and half of another are none.
TEST(WebHdfs, AFileThatChangesBetweenTwoAttemptsIsNotMixed) {
  const StoreServer& server = StoreServer::empty();
  server.put("f", "content");
  const auto reader =
      open_remote(server.webhdfs("f"), storage::status(server.webhdfs("f")).value());
  server.fail(R"(["ok", "ok", "changes"])");
  std::string read(7, '\0');
  EXPECT_EQ(error_of<InputError>([&] { reader->read(0, read.data(), read.size()); }),
            server.webhdfs("f") + ": has changed while it was read");
}

TEST(WebHdfs, ADataNodeThatReachesNobodyIsAskedAgain) {
  const StoreServer& server = StoreServer::empty();
  server.put("f", "content");
  const auto status = storage::status(server.webhdfs("f")).value();
  for (const char* exception :
       {"ConnectException", "BlockMissingException", "SocketTimeoutException"}) {
    server.fail(std::string("[\"ok\", \"ok\", \"") + exception + "\"]");
    std::string read(7, '\0');
    open_remote(server.webhdfs("f"), status)->read(0, read.data(), read.size());
    EXPECT_EQ(read, "content") << exception;
  }
}

TEST(WebHdfs, AFileIsReplacedAtOnceWhereThatCanBeAsked) {
  const StoreServer& server = StoreServer::empty();
  server.put("f", "old");
  // The rest would fail.
  server.fail(R"(["ok", "ok", "ok", "403"])");
  storage::write_file(server.webhdfs("f"), "new");
  server.fail("[]");
  EXPECT_EQ(storage::read_file(server.webhdfs("f"), 10), "new");
  server.fail(R"(["ok", "ok", "no options", "ok", "ok", "no options"])");
  storage::write_file(server.webhdfs("f"), "newer");
  EXPECT_EQ(storage::read_file(server.webhdfs("f"), 10), "newer");
}

TEST(WebHdfs, WhatCannotBeWrittenLeavesNothing) {
  const StoreServer& server = StoreServer::empty();
  for (const char* faults :
       {R"(["403"])", R"(["ok", "403"])", R"(["ok", "ok", "AccessControlException"])"}) {
    server.fail(faults);
    EXPECT_NE(error_of<AccessDenied>([&] { storage::write_file(server.webhdfs("f"), "x"); }), "");
    EXPECT_TRUE(list(server.webhdfs("")).empty()) << faults;
  }
}

TEST(WebHdfs, AnExceptionWithoutWordsIsNamed) {
  const StoreServer& server = StoreServer::empty();
  server.fail(R"(["NullPointerException"])");
  EXPECT_EQ(error_of<AccessDenied>([&] { storage::exists(server.webhdfs("f")); }),
            server.webhdfs("f") + ": the answer is 403, NullPointerException: ");
}

TEST(WebHdfs, RefusalsAreNamed) {
  const StoreServer& server = StoreServer::empty();
  server.put("f", "x");
  // A name of its own, so that it is another store.
  const std::string file = "webhdfs://localhost" + server.webhdfs("f").substr(19);
  const Variable user("HADOOP_USER_NAME", "stranger");
  EXPECT_EQ(error_of([&] { storage::exists(file); }),
            file +
                ": the answer is 403, AccessControlException: Permission denied: user=stranger, "
                "access=READ");
  const Variable timeout("SULLAE_STORAGE_TIMEOUT", "1");
  EXPECT_TRUE(contains(error_of([] { storage::exists("webhdfs://127.0.0.1:1/f"); }),
                       "webhdfs://127.0.0.1:1/f: Failed to connect to 127.0.0.1 port 1"));
}

}  // namespace
}  // namespace sullae::testing
