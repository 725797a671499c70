// The page in a real browser, as operators use it.
#include <gtest/gtest.h>

#include "data/images.h"
#include "serve/models.h"
#include "serve/server_program.h"
#include "support/browser.h"
#include "support/temporary_directory.h"
#include "train/small_digits.h"
#include "train/small_prose.h"
#include "train/small_texts.h"

namespace sullae::testing {
namespace {

class PageTest : public ::testing::Test {
 protected:
  void SetUp() override {
    try {
      browser_.emplace();
    } catch (const std::runtime_error& error) {
      GTEST_SKIP() << "SKIPPED: no browser starts here: " << error.what();
    }
    export_small_texts(directory_.path() / "data", repository_);
    put_text(repository_ / "texts" / "config.toml",
             "[online]\nepochs = 20\nbatch_size = 4\nlearning_rate = 0.05\ntolerance = 50\n");
    export_small_digits(directory_.path() / "digits", repository_);
    put_text(repository_ / "numbers" / "config.toml", kConstantConfig);
    put_constant(repository_ / "numbers", 1, 7);
  }
  void open(const std::vector<std::string>& options) {
    server_.emplace(repository_, options);
    browser_->visit("http://127.0.0.1:" + std::to_string(server_->port()) + "/");
  }
  // The text of the first element at `selector` within the section of the model "texts".
  static std::string text(const std::string& selector) {
    return "[...document.querySelectorAll('section')].find(s => s.querySelector('h2').textContent"
           ".startsWith('texts')).querySelector('" +
           selector + "').textContent";
  }

  TemporaryDirectory directory_;
  std::filesystem::path repository_ = directory_.path() / "models";
  std::optional<ServerProgram> server_;
  std::optional<Browser> browser_;
};

TEST_F(PageTest, AnOperatorAsksCorrectsTrainsAndRollsBack) {
  open({"--online"});
  ASSERT_TRUE(browser_->wait_for("document.querySelectorAll('section').length === 3"));
  EXPECT_TRUE(browser_->wait_for(text("h2") + ".includes('version 1 answers')"));
  // Models that take neither texts nor images have no form.
  EXPECT_EQ(browser_->run("return [...document.querySelectorAll('textarea')].filter("
                          "t => t.offsetParent !== null).length"),
            1);
  const std::string form = "section:last-child ";
  browser_->type(form + "textarea", "what a twist in film3");
  browser_->click(form + ".ask");
  ASSERT_TRUE(browser_->wait_for("document.querySelector('.label')"));
  EXPECT_EQ(browser_->run("return " + text(".label")), "0");
  browser_->type(form + "select", "1");
  browser_->click(form + ".correct");
  EXPECT_TRUE(browser_->wait_for(text(".saved") + " === 'Saved.'"));
  EXPECT_TRUE(browser_->wait_for(text(".online-state") + ".startsWith('1 sample, 1 not')"));
  browser_->click(form + ".correct");
  EXPECT_TRUE(browser_->wait_for(text(".saved") + " === 'It is known already.'"));
  browser_->click(form + ".take-back");
  EXPECT_TRUE(browser_->wait_for(text(".online-state") + ".startsWith('0 samples, 0 not')"));
  browser_->click(form + ".correct");
  EXPECT_TRUE(browser_->wait_for(text(".online-state") + ".startsWith('1 sample, 1 not')"));

  browser_->click(form + ".train");
  EXPECT_TRUE(browser_->wait_for("document.querySelector('.rounds .published')"))
      << browser_->run("return document.body.innerText");
  const auto round = browser_->run("return " + text(".rounds tbody tr"));
  EXPECT_NE(round.get<std::string>().find("1 → 2"), std::string::npos) << round;
  EXPECT_NE(round.get<std::string>().find("0.0 → 100.0 %"), std::string::npos) << round;
  EXPECT_NE(round.get<std::string>().find("anonymous (1)"), std::string::npos) << round;
  EXPECT_TRUE(browser_->wait_for(text("h2") + ".includes('version 2 answers')"));
  browser_->click(form + ".ask");
  EXPECT_TRUE(browser_->wait_for(text(".label") + " === '1'")) << "as the operator said";

  browser_->click(form + ".rollback");
  EXPECT_TRUE(browser_->wait_for(text("h2") + ".includes('version 1 answers')"));
  EXPECT_TRUE(browser_->wait_for("document.querySelector('.WITHDRAWN')"));
  browser_->run("document.querySelectorAll('[aria-label=version]').forEach(i => i.value = '')");
  browser_->type(form + "[aria-label=version]", "2");
  browser_->click(form + ".canary");
  EXPECT_TRUE(browser_->wait_for(text("h2") + ".includes('version 2 gets 10 %')"));
  browser_->click(form + ".rollback");
  EXPECT_TRUE(browser_->wait_for(text(".problem") + ".includes('no version before 1')"))
      << "what cannot be done is said";
}

TEST_F(PageTest, ImagesAreChosenAndCorrected) {
  const auto file = directory_.path() / "white.jpg";
  put_text(file, one_colour_jpeg(28, 28, 255, 255, 255));
  open({});
  ASSERT_TRUE(browser_->wait_for("document.querySelectorAll('section').length === 3"));
  const std::string form = "section:first-child ";
  EXPECT_TRUE(browser_->wait_for("document.querySelector('h2').textContent.includes('version 1')"));
  browser_->click(form + ".ask");
  EXPECT_TRUE(
      browser_->wait_for("document.querySelector('.problem:not(#problem)').textContent.startsWith('"
                         "Choose an image')"));
  browser_->type(form + "input[type=file]", file);
  EXPECT_TRUE(browser_->wait_for("document.querySelector('.preview').naturalWidth === 28"));
  browser_->click(form + ".ask");
  ASSERT_TRUE(browser_->wait_for("document.querySelectorAll('.scale').length === 10"));
  browser_->type(form + "select", "7");
  browser_->click(form + ".correct");
  EXPECT_TRUE(browser_->wait_for("document.querySelector('.saved').textContent === 'Saved.'"));
  EXPECT_TRUE(browser_->wait_for(
      "document.querySelector('.online-state').textContent.startsWith('1 sample, 1 not')"));
}

TEST_F(PageTest, AsksForATokenAndShowsTextsAsTexts) {
  put_text(directory_.path() / "tokens.toml",
           "[[token]]\nname = \"<b>kim</b>\"\nrole = \"operate\"\ntoken = \"0123456789abcdef\"\n");
  open({"--tokens-file", directory_.path() / "tokens.toml"});
  ASSERT_TRUE(browser_->wait_for("document.querySelector('#token').offsetParent"));
  browser_->type("#token", "wrong");
  browser_->click("#token-set");
  EXPECT_TRUE(browser_->wait_for(
      "document.querySelector('#problem').textContent.includes('the token is not known')"));
  browser_->run("document.querySelector('#token').value = ''");
  browser_->type("#token", "0123456789abcdef");
  browser_->click("#token-set");
  ASSERT_TRUE(browser_->wait_for("document.querySelectorAll('section').length === 3"));
  EXPECT_TRUE(browser_->wait_for("document.querySelector('#token').offsetParent === null"));
  const std::string form = "section:last-child ";
  browser_->type(form + "textarea", "<img src=x onerror=document.title=1>");
  browser_->click(form + ".ask");
  ASSERT_TRUE(browser_->wait_for("document.querySelector('.correct')"));
  browser_->click(form + ".correct");
  EXPECT_TRUE(browser_->wait_for(text(".saved") + " === 'Saved.'"));
  EXPECT_TRUE(browser_->wait_for(text(".online-state") + ".includes('nothing learns')"));
  EXPECT_EQ(browser_->run("return document.title"), "Sullae: models in service");
}

TEST_F(PageTest, ALanguageModelGoesOnWithWhatIsTyped) {
  repository_ = directory_.path() / "writers";
  export_small_writer(directory_.path() / "prose", repository_);
  open({});
  ASSERT_TRUE(
      browser_->wait_for("document.querySelector('textarea')?.placeholder === "
                         "'A text to go on with'"));
  browser_->type("textarea", "one two");
  browser_->click(".ask");
  ASSERT_TRUE(browser_->wait_for("document.querySelector('.written')"));
  EXPECT_EQ(browser_->run("return document.querySelector('.written').textContent.slice(0, 13)"),
            "one two three");
  // What it is to write instead.
  const auto says = [](const std::string& selector, const std::string& words) {
    return "document.querySelector('" + selector + "').textContent.startsWith('" + words + "')";
  };
  browser_->click(".learn");
  EXPECT_TRUE(browser_->wait_for(says(".saved", "Saved.")));
  EXPECT_TRUE(browser_->wait_for(says(".online-state", "1 sample, 1 not")));
  browser_->click(".learn");
  EXPECT_TRUE(browser_->wait_for(says(".saved", "It is known already.")));
  browser_->click(".take-back");
  EXPECT_TRUE(browser_->wait_for(says(".online-state", "0 samples, 0 not")));
}

}  // namespace
}  // namespace sullae::testing
