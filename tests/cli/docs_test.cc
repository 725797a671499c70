// The pages say what is true: their links lead somewhere, their options exist, and both READMEs say
// the same.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <regex>
#include <set>
#include <sstream>

#include "support/content_of.h"
#include "support/program.h"

namespace sullae::testing {
namespace {

namespace fs = std::filesystem;

std::vector<fs::path> pages() {
  const fs::path root = SOURCE_DIRECTORY;
  std::vector<fs::path> pages{root / "README.md", root / "README.ko.md"};
  for (const auto& entry : fs::directory_iterator(root / "docs")) {
    const bool is_made = entry.path().filename() == "commands.md";  // see CommandsAreWhatHelpSays
    if (entry.path().extension() == ".md" && !is_made) pages.push_back(entry.path());
  }
  return pages;
}

std::vector<std::string> matches(const std::string& text, const std::regex& pattern) {
  std::vector<std::string> found;
  for (std::sregex_iterator match(text.begin(), text.end(), pattern), end; match != end; ++match)
    found.push_back((*match)[1]);
  return found;
}

/// As GitHub makes them of headings.
std::set<std::string> anchors_of(const std::string& page) {
  std::set<std::string> anchors;
  std::istringstream lines(page);
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with('#')) continue;
    std::string anchor;
    for (const char c : line.substr(line.find_first_not_of('#') + 1)) {
      if (c == ' ') {
        anchor += '-';
      } else if (std::isalnum(static_cast<unsigned char>(c)) || c == '-' || c == '_' || c < 0) {
        anchor += static_cast<char>(c < 0 ? c : std::tolower(c));
      }
    }
    anchors.insert(anchor);
  }
  return anchors;
}

TEST(Docs, LinksLeadSomewhere) {
  const std::regex link(R"(\]\(([^)\s]+)\))");
  const std::regex code(R"(```[^`]*```|`[^`\n]*`)");
  for (const auto& page : pages()) {
    const std::string text = content_of(page);
    ASSERT_FALSE(text.empty()) << page;
    for (const auto& target : matches(std::regex_replace(text, code, ""), link)) {
      if (target.starts_with("http")) continue;
      const auto hash = target.find('#');
      const auto file = hash == 0 ? page : page.parent_path() / target.substr(0, hash);
      ASSERT_TRUE(fs::exists(file)) << page << ": " << target;
      if (hash != std::string::npos) {
        EXPECT_TRUE(anchors_of(content_of(file)).contains(target.substr(hash + 1)))
            << page << ": " << target;
      }
    }
  }
}

TEST(Docs, CommandsAreWhatHelpSays) {
  const auto script = fs::path(SOURCE_DIRECTORY) / "scripts" / "commands_page.py";
  const auto result = run_program({"python3", script, "--check", sullae_program()});
  EXPECT_EQ(result.exit_code, 0) << result.standard_error;
}

TEST(Docs, OptionsExist) {
  // Of other programs.
  std::set<std::string> options{"--json", "--no-python", "--nproc-per-node", "--build",
                                "--user", "--prefix",    "--privileged",     "--account",
                                "--gres", "--exclusive"};
  const std::regex option(R"((--[a-z][a-z0-9-]*[a-z0-9]))");
  const fs::path root = SOURCE_DIRECTORY;
  for (auto& name : matches(content_of(root / "docs" / "commands.md"), option))
    options.insert(name);
  // Of the benchmarks, which are programs of their own.
  for (const auto& entry : fs::recursive_directory_iterator(root / "bench")) {
    if (entry.path().extension() != ".py") continue;
    for (auto& name : matches(content_of(entry.path()), option)) options.insert(name);
  }
  for (const auto& page : pages()) {
    for (const auto& name : matches(content_of(page), option))
      EXPECT_TRUE(options.contains(name)) << page << ": there is no " << name;
  }
}

// Without comments, and with one space for any white space.
std::string normalised(const std::string& code) {
  const std::string plain = std::regex_replace(code, std::regex(R"(//[^\n]*)"), "");
  return std::regex_replace(plain, std::regex(R"(\s+)"), " ");
}

// What must follow one another in compiled code, whatever stands between: where the page leaves
// something out, has an empty line, or ends a block.
std::vector<std::string> pieces_of(const std::string& block) {
  const std::regex between(R"(…|\.\.\.|\n\s*\};?(?=\n|$)|\n\s*\n)");
  return {std::sregex_token_iterator(block.begin(), block.end(), between, -1), {}};
}

TEST(Docs, CodeIsCompiled) {
  const fs::path root = SOURCE_DIRECTORY;
  std::string compiled;
  for (const auto& entry : fs::directory_iterator(root / "tests" / "docs"))
    compiled += normalised(content_of(entry.path()));
  int blocks = 0;
  for (const auto& page : pages()) {
    const std::string text = content_of(page);
    for (std::size_t at = 0; (at = text.find("```cpp\n", at)) != std::string::npos; ++blocks) {
      at += std::string("```cpp\n").size();
      std::size_t found = 0;
      for (const auto& part : pieces_of(text.substr(at, text.find("\n```", at) - at))) {
        const auto piece = std::regex_replace(normalised(part), std::regex("^ +| +$"), "");
        found = compiled.find(piece, found);
        ASSERT_NE(found, std::string::npos) << page << ": not in tests/docs: " << piece;
        found += piece.size();
      }
    }
  }
  EXPECT_GT(blocks, 5);
}

// What can be compared without knowing the language: headings, blocks of commands, figures.
TEST(Docs, TheKoreanPageKeepsStep) {
  const fs::path root = SOURCE_DIRECTORY;
  const std::regex figure(R"((\d[\d.,]* ?%|\d+\.\d+))");
  const auto shape_of = [&](const std::string& page) {
    std::vector<std::string> lines;
    bool code = false;
    std::istringstream stream(page);
    for (std::string line; std::getline(stream, line);) {
      if (line.starts_with("```")) {
        code = !code;
        lines.push_back(line);
      } else if (line.starts_with("## ")) {
        lines.emplace_back("heading");
      } else if (code) {
        // Comments stand behind commands.
        lines.push_back(line.substr(0, std::min(line.find("  "), line.find("//"))));
      }
    }
    return lines;
  };
  const auto figures_of = [&](const std::string& page) {
    auto found = matches(page, figure);
    std::ranges::sort(found);
    return found;
  };
  const std::string english = content_of(root / "README.md");
  const std::string korean = content_of(root / "README.ko.md");
  EXPECT_EQ(shape_of(english), shape_of(korean));
  EXPECT_EQ(figures_of(english), figures_of(korean));
  EXPECT_LE(std::ranges::count(english, '\n'), 150);
}

}  // namespace
}  // namespace sullae::testing
