// Messages as samples, whichever come together.
#include "data/format/messages.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "support/errors.h"

namespace sullae::testing {
namespace {

using namespace data;

const kafka::Address kTopic{.brokers = "b:9092", .topic = "t"};

class MessagesOf : public ::testing::Test {
 protected:
  // What each is, as a text or a problem.
  std::vector<std::string> read(const std::vector<std::string>& values, DatasetOptions options = {},
                                std::int64_t first_offset = 0) {
    std::vector<kafka::Message> messages(values.size());
    for (std::size_t i = 0; i < values.size(); ++i) {
      messages[i].offset = first_offset + static_cast<std::int64_t>(i);
      messages[i].value = values[i];
    }
    options = alone(options);
    const auto set = open_messages(kTopic, messages, options);
    std::vector<std::string> read;
    for (std::size_t i = 0; i < set->size(); ++i) {
      const auto problem = error_of<DamagedRecord>([&] {
        const Example sample = set->read(i);
        const auto* const text = sample.bytes(feature::kText);
        read.push_back(text == nullptr ? "no text" : *text);
      });
      if (read.size() == i) read.push_back(problem);
    }
    return read;
  }
};

TEST_F(MessagesOf, OneTopicAreEachWhatTheyAreAlone) {
  const std::vector<std::string> values = {
      R"({"text":"one"})",          R"({"text":["a","b"],"title":"c"})",
      R"({"text":"d","n":1})",      R"({"text":"e","n":"one"})",
      R"({"n":1,"text":"f"})",      R"({"text":"g","label":[]})",
      R"({"title":"h","text":"i"})"};
  const auto together = read(values);
  for (std::size_t i = 0; i < values.size(); ++i)
    EXPECT_EQ(together[i], read({values[i]}, {}, static_cast<std::int64_t>(i))[0]) << values[i];
}

// Some writers end lines, and are not of one shape for that.
TEST_F(MessagesOf, OneTopicAreRowsWithAnyLineEnd) {
  const DatasetOptions options{.format = "csv", .header = "no", .text_columns = "1"};
  const std::vector<std::string> values = {"one,1\n", "two\n", "three,3\r\n", "four"};
  EXPECT_EQ(read(values, options), (std::vector<std::string>{"one", "two", "three", "four"}));
}

// Who may write into a topic chooses names: none makes the messages of others damage.
TEST_F(MessagesOf, OthersAreNotMadeWhatTheyAreNot) {
  const std::vector<std::string> victims = {R"({"text":"b","id":1})", R"({"text":"b","id":1})"};
  for (const char* attack :
       {R"({"text\u00000id":1})", R"({"text\u0000":1})", R"({"text=t;2:id":1})",
        R"({"4:text=t;2:id":1})", R"({"text":{"id":1}})", R"({"text":[{"id":1}]})",
        R"({"":{"text":"b","id":1}})"}) {
    auto values = victims;
    values.insert(values.begin(), attack);
    const auto found = read(values);
    EXPECT_EQ(found[1], "b") << attack;
    EXPECT_EQ(found[2], "b") << attack;
  }
}

TEST_F(MessagesOf, NoKnownFormatAreDamage) {
  const std::string problem =
      "kafka://b:9092/t, partition 0, offset 0: is neither a JSON object nor a tf.train.Example: "
      "expected --data-format csv or tsv for rows of a table";
  EXPECT_EQ(read({"1,a"})[0], problem);
  EXPECT_EQ(read({"a,1", "b"}, {.format = "csv", .text_columns = "1"}),
            (std::vector<std::string>{"a", "b"}));
}

}  // namespace
}  // namespace sullae::testing
