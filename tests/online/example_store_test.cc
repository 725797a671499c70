#include "online/example_store.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <thread>

#include "base/hash.h"
#include "support/errors.h"
#include "support/temporary_directory.h"

namespace sullae::testing {
namespace {

using namespace online;

class ExampleStoreTest : public ::testing::Test {
 protected:
  static StoreResult put(ExampleStore& store, const std::vector<Example>& examples,
                         const std::string& author) {
    return store.put({{examples, author}}).at(0);
  }
  TemporaryDirectory directory_;
  std::filesystem::path file_ = directory_.path() / "examples.db";
};

TEST_F(ExampleStoreTest, KeepsTheLastOfEachKeyAndWhoSaidIt) {
  ExampleStore store(file_);
  EXPECT_EQ(store.size(), 0);
  EXPECT_EQ(store.revision(), 0);
  const auto first = put(store, {{"a", "영화", "1"}, {"b", "two", "0"}}, "kim");
  EXPECT_EQ(first.added, 2);
  EXPECT_EQ(first.revision, 2);
  const auto second =
      put(store, {{"a", "영화", "0"}, {"b", "two", "0"}, {"", "three", "1"}}, "lee");
  EXPECT_EQ(second.added, 1);
  EXPECT_EQ(second.replaced, 1);
  EXPECT_EQ(second.unchanged, 1);
  EXPECT_EQ(put(store, {{"", "three", "1"}}, "kim").unchanged, 1) << "a text is its own key";
  EXPECT_EQ(store.size(), 3);
  const auto changed = store.changed_since(first.revision, 100);
  ASSERT_EQ(changed.size(), 2U);
  EXPECT_EQ(changed[0].example.key, "a");
  EXPECT_EQ(changed[0].example.label, "0");
  EXPECT_EQ(changed[0].author, "lee");
  EXPECT_GT(changed[0].time, 1600000000000);
  EXPECT_EQ(changed[1].example.input, "three");
  EXPECT_EQ(store.changed_since(0, 2).size(), 2U);
  EXPECT_EQ(store.changed_since(0, 100)[0].example.key, "b") << "in the order of changes";
  EXPECT_EQ(put(store, {}, "kim").revision, second.revision);
}

TEST_F(ExampleStoreTest, TwoTextsOfOneHashAreTwoSamples) {
  const std::string one = "8yn0iYCKYHlIj4-BwPqk";
  const std::string other = "GReLUrM4wMqfg9yzV3KQ";
  ASSERT_EQ(fnv1a(one), fnv1a(other));
  ExampleStore store(file_);
  EXPECT_EQ(put(store, {{"", one, "1"}, {"", other, "0"}}, "kim").added, 2);
  EXPECT_EQ(put(store, {{"", one, "1"}, {"", other, "0"}}, "kim").unchanged, 2);
  EXPECT_EQ(put(store, {{"", other, "1"}}, "lee").replaced, 1);
  EXPECT_EQ(put(store, {{"", one, ""}}, "lee").removed, 1);
  ASSERT_EQ(store.all().size(), 1U);
  EXPECT_EQ(store.all()[0].example.input, other);
}

TEST_F(ExampleStoreTest, TakesBackWhatHasNoLabel) {
  ExampleStore store(file_);
  put(store, {{"a", "one", "1"}, {"b", "two", "0"}}, "kim");
  const auto result = put(store, {{"a", "", ""}, {"c", "", ""}}, "lee");
  EXPECT_EQ(result.removed, 1);
  EXPECT_EQ(result.unchanged, 1) << "there was none";
  EXPECT_EQ(store.size(), 1);
  ASSERT_EQ(store.all().size(), 1U);
  EXPECT_EQ(store.all()[0].example.key, "b");
  EXPECT_EQ(store.count_since(0).first, 1);
  EXPECT_EQ(store.count_since(2).first, 0) << "there is nothing to train of it";
  const auto changed = store.changed_since(2, 100);
  ASSERT_EQ(changed.size(), 1U);
  EXPECT_EQ(changed[0].example.key, "a");
  EXPECT_EQ(changed[0].example.label, "");
  EXPECT_EQ(changed[0].author, "lee");
  EXPECT_EQ(put(store, {{"a", "", ""}}, "lee").unchanged, 1) << "once is enough";
  EXPECT_EQ(put(store, {{"a", "one", "1"}}, "kim").added, 1);
  EXPECT_EQ(store.size(), 2);
}

TEST_F(ExampleStoreTest, KeepsBytesAsTheyAre) {
  ExampleStore store(file_);
  const std::string bytes("\xff\xd8\0\x10\xff\xd9", 6);
  EXPECT_EQ(put(store, {{"", bytes, "1"}}, "kim").added, 1);
  EXPECT_EQ(put(store, {{"", bytes, "1"}}, "kim").unchanged, 1);
  EXPECT_EQ(store.all().at(0).example.input, bytes);
}

TEST_F(ExampleStoreTest, IsThereAgainWhenItIsOpenedAgain) {
  {
    ExampleStore store(file_);
    put(store, {{"a", std::string("nul\0byte", 8), "1"}}, "kim");
  }
  const auto changed = ExampleStore(file_).changed_since(0, 10);
  ASSERT_EQ(changed.size(), 1U);
  EXPECT_EQ(changed[0].example.input, std::string("nul\0byte", 8));
}

TEST_F(ExampleStoreTest, TakesManyOperatorsAtOnceInOneProcessOrSeveral) {
  constexpr int kOperators = 4;
  constexpr int kEach = 25;
  std::vector<std::thread> operators;
  ExampleStore shared(file_);
  for (int o = 0; o < kOperators; ++o) {
    operators.emplace_back([&, o] {
      // A store of its own stands for another process.
      ExampleStore own(file_);
      ExampleStore& store = o % 2 == 0 ? shared : own;
      for (int i = 0; i < kEach; ++i) {
        const auto number = std::to_string(o * kEach + i);
        put(store, {{number, "text " + number, "1"}, {"common", number, "0"}}, std::to_string(o));
      }
    });
  }
  for (auto& thread : operators) thread.join();
  EXPECT_EQ(shared.size(), kOperators * kEach + 1);
  EXPECT_EQ(shared.revision(), 2 * kOperators * kEach);
  EXPECT_EQ(shared.changed_since(0, 1000).size(), std::size_t{kOperators * kEach + 1});
}

TEST_F(ExampleStoreTest, SaysWhichFileCannotBe) {
  EXPECT_TRUE(contains(error_of([] { ExampleStore("/nonexistent/examples.db"); }),
                       "/nonexistent/examples.db: cannot be opened: "));
  {
    std::ofstream(file_) << "this is no database, and long enough that SQLite looks at it closely";
  }
  EXPECT_TRUE(contains(error_of([&] { ExampleStore store(file_); }), "file is not a database"));
}

}  // namespace
}  // namespace sullae::testing
