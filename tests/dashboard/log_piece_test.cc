#include "dashboard/log_piece.h"

#include <gtest/gtest.h>

#include <fstream>

#include "support/temporary_directory.h"

namespace sullae::testing {
namespace {

using dashboard::log_piece;

class LogPiece : public ::testing::Test {
 protected:
  void append(const std::string& text) { std::ofstream(file_, std::ios::app) << text; }
  TemporaryDirectory directory_;
  std::filesystem::path file_ = directory_.path() / "log";
};

TEST_F(LogPiece, IsReadOnAsItGrows) {
  EXPECT_EQ(log_piece(directory_.path(), file_, std::nullopt).at("size"), 0) << "there is none yet";
  append("one\ntw");
  auto piece = log_piece(directory_.path(), file_, std::nullopt);
  EXPECT_EQ(piece.at("text"), "one\n") << "whole lines";
  append("o\nthree\n");
  piece = log_piece(directory_.path(), file_, piece.at("end").get<std::int64_t>());
  EXPECT_EQ(piece.at("text"), "two\nthree\n");
  EXPECT_EQ(piece.at("end"), piece.at("size"));
  append("a line that is not over yet, or a bar of progress");
  piece = log_piece(directory_.path(), file_, piece.at("end").get<std::int64_t>());
  EXPECT_NE(piece.at("text"), "") << "what is the end now is shown";
}

TEST_F(LogPiece, OfALongOneTheEndIsRead) {
  for (int line = 0; line < 100'000; ++line) append(std::to_string(line) + "\n");
  const auto piece = log_piece(directory_.path(), file_, std::nullopt);
  const auto text = piece.at("text").get<std::string>();
  EXPECT_LE(text.size(), std::size_t{256} << 10);
  EXPECT_TRUE(text.ends_with("\n99999\n"));
  const auto size = piece.at("size").get<std::int64_t>();
  EXPECT_EQ(piece.at("begin").get<std::int64_t>() + static_cast<std::int64_t>(text.size()), size);
  // From the beginning on, piece by piece, it is all there.
  std::string whole;
  for (std::int64_t at = 0; at < size;) {
    const auto next = log_piece(directory_.path(), file_, at);
    whole += next.at("text").get<std::string>();
    ASSERT_GT(next.at("end"), at);
    at = next.at("end");
  }
  EXPECT_EQ(static_cast<std::int64_t>(whole.size()), size);
}

TEST_F(LogPiece, AShorterFileIsAnotherOne) {
  append("one\n");
  EXPECT_EQ(log_piece(directory_.path(), file_, 400).at("text"), "one\n");
  EXPECT_EQ(log_piece(directory_.path(), directory_.path(), std::nullopt).at("text"), "")
      << "a folder";
}

TEST_F(LogPiece, LinksLeadNowhereElse) {
  const TemporaryDirectory elsewhere;
  std::ofstream(elsewhere.path() / "secret") << "secret\n";
  std::filesystem::create_symlink(elsewhere.path() / "secret", file_);
  EXPECT_EQ(log_piece(directory_.path(), file_, std::nullopt).at("text"), "");
  const auto folder = directory_.path() / "folder";
  std::filesystem::create_directory_symlink(elsewhere.path(), folder);
  EXPECT_EQ(log_piece(directory_.path(), folder / "secret", std::nullopt).at("text"), "");
  EXPECT_EQ(log_piece(elsewhere.path(), elsewhere.path() / "secret", std::nullopt).at("text"),
            "secret\n");
}

}  // namespace
}  // namespace sullae::testing
