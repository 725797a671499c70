// The pages in a real browser, as people use them.
#include <filesystem>
#include <fstream>
#include <limits>
#include <map>

#include "dashboard/fixture.h"
#include "support/browser.h"
#include "support/program.h"

namespace sullae::testing {
namespace {

class DashboardPage : public DashboardTest {
 protected:
  void SetUp() override {
    try {
      browser_.emplace();
    } catch (const std::runtime_error& error) {
      GTEST_SKIP() << "SKIPPED: no browser starts here: " << error.what();
    }
  }
  void open(const std::string& where = "") {
    browser_->visit("http://127.0.0.1:" + std::to_string(dashboard().port()) + "/" + where);
  }
  bool sees(const std::string& text) {
    return browser_->wait_for("document.body.innerText.includes(" + nlohmann::json(text).dump() +
                              ")");
  }
  std::string whole() { return browser_->run("return document.body.innerText").dump(); }

  std::optional<Browser> browser_;
};

TEST_F(DashboardPage, RunsAreFoundLookedAtAndCompared) {
  run("slow", 300, {.settings = {{"lr", "0.1"}, {"seed", "1"}}}).completed();
  auto live = run("quick", 200, {.settings = {{"lr", "0.2"}, {"seed", "1"}}});
  run("broken", 5).failed("a <b>rank</b> died");
  open();
  ASSERT_TRUE(browser_->wait_for("document.querySelectorAll('tbody tr').length === 3")) << whole();
  EXPECT_TRUE(sees("completed 1"));
  browser_->type("input[type=search]", "lr=0.2");
  ASSERT_TRUE(browser_->wait_for("document.querySelectorAll('tbody tr').length === 1"));
  browser_->click("tbody a");
  ASSERT_TRUE(browser_->wait_for("document.querySelectorAll('.chart path.curve').length === 2"))
      << whole();
  EXPECT_TRUE(sees("running"));
  EXPECT_TRUE(sees("Settings"));
  live.scalars(201, {{"train/loss", 0.4321}});
  EXPECT_TRUE(sees("0.4321")) << "it comes by itself";
  live.completed();
  EXPECT_TRUE(sees("completed"));

  browser_->click(".brand");
  ASSERT_TRUE(browser_->wait_for("document.querySelectorAll('tbody tr').length === 3"));
  EXPECT_EQ(browser_->run("return document.getElementById('compare').disabled"), true);
  RunLog live_again(root_ / "broken", {}, RunLog::Earlier::continued);
  int live_step = 777;
  // Each after the table was drawn anew.
  for (const std::string name : {"slow", "quick"}) {
    browser_->click("input[aria-label='compare " + name + "']");
    const auto step = std::to_string(++live_step);
    live_again.scalars(live_step, {{"train/loss", 1}});
    ASSERT_TRUE(
        browser_->wait_for("document.querySelector('tbody').innerText.includes('" + step + "')"));
  }
  EXPECT_EQ(browser_->run("return document.getElementById('compare').textContent"), "Compare 2");
  browser_->click("#compare");
  ASSERT_TRUE(browser_->wait_for("document.querySelectorAll('.chart path.curve').length === 4"))
      << whole();
  EXPECT_TRUE(sees("Settings that differ"));
  // The one that differs, and no other.
  EXPECT_EQ(browser_->run("return [...document.querySelectorAll('td.mono:first-child')].map(e => "
                          "e.textContent).join()"),
            "lr");
  browser_->click("select");
  browser_->run("const s = document.querySelector('select'); s.value = 'time'; s.onchange();");
  EXPECT_TRUE(browser_->wait_for(
      "[...document.querySelectorAll('.chart text')].some(t => t.textContent.endsWith(' s'))"));
  browser_->run(
      "const s = document.querySelector('input[type=range]'); s.value = 0.9; s.oninput();");
  EXPECT_TRUE(browser_->wait_for("document.querySelectorAll('.chart path.raw').length === 4"));

  live_again.failed("a <b>rank</b> died");
  open("#/run/broken");
  ASSERT_TRUE(sees("a <b>rank</b> died")) << "as text, whatever it says: " << whole();
  open("#/run/none");
  EXPECT_TRUE(sees("there is no run 'none'"));
}

TEST_F(DashboardPage, ChartsStandAnyNumbers) {
  {
    RunLog log(root_ / "odd", {});
    constexpr double kNone = std::numeric_limits<double>::quiet_NaN();
    for (int step = 1; step <= 200; ++step)
      log.scalars(step,
                  {{"constant", 0.1},
                   {"nearly", 3e-4 * (1 + (step % 2) * std::numeric_limits<double>::epsilon())},
                   {"none", kNone},
                   {"between", step == 100 ? 1.0 : kNone},
                   {"huge", step % 2 == 0 ? 1e300 : -1e300},
                   {"endless", std::numeric_limits<double>::infinity()}});
    log.scalars(200, {{"once", 7}});
  }
  open("#/run/odd");
  ASSERT_TRUE(browser_->wait_for("document.querySelectorAll('.chart').length === 7")) << whole();
  // Wherever the slider is, and both ways up the axis can go.
  EXPECT_EQ(
      browser_->run("const slider = document.querySelector('input[type=range]'), log = "
                    "document.querySelector('input[type=checkbox]');"
                    "for (const logarithmic of [false, true]) {"
                    "  log.checked = logarithmic; log.onchange();"
                    "  for (let i = 0; i < 100; ++i) { slider.value = i / 100; slider.oninput(); }"
                    "}"
                    "return document.querySelectorAll('.chart svg *').length < 5000"),
      true);
  EXPECT_EQ(browser_->run("return document.body.innerHTML.includes('NaN ') || "
                          "document.body.innerHTML.includes('Infinity,')"),
            false);
}

TEST_F(DashboardPage, ALookCloserAndCloserAndBack) {
  run("a", 1000).completed();
  open("#/run/a");
  ASSERT_TRUE(browser_->wait_for("document.querySelectorAll('.chart path.curve').length === 2"));
  const std::string drag =
      "const svg = document.querySelector('.chart svg'), box = svg.getBoundingClientRect();"
      "svg.setPointerCapture = () => {};"
      "const at = (type, share) => svg.dispatchEvent(new PointerEvent(type, {clientX: box.left + "
      "share * box.width,"
      "  clientY: box.top + 50, buttons: 1, bubbles: true, cancelable: true}));"
      "const kept = at('pointerdown', 0.4); at('pointermove', 0.5); at('pointerup', 0.6); return "
      "kept;";
  const auto shown =
      "[...document.querySelectorAll('.chart text')].map(e => e.textContent).join(' ')";
  const auto whole_axis = browser_->run(std::string("return ") + shown);
  for (int i = 0; i < 2; ++i) {
    const auto before = browser_->run(std::string("return ") + shown);
    EXPECT_EQ(browser_->run(drag), false) << "nothing is selected meanwhile";
    EXPECT_TRUE(browser_->wait_for(shown + (" !== " + before.dump())));
  }
  browser_->run(
      "[...document.querySelectorAll('button')].find(b => b.textContent === 'Show all').click()");
  EXPECT_TRUE(browser_->wait_for(shown + (" === " + whole_axis.dump())));
}

TEST_F(DashboardPage, OfManyCurvesTheMainOnesComeFirst) {
  {
    RunLog log(root_ / "many", {});
    std::map<std::string, double> values{{"train/loss", 1}, {"test/accuracy", 0.5}};
    for (int layer = 0; layer < 200; ++layer) values["gradients/l" + std::to_string(layer)] = layer;
    log.scalars(1, values);
  }
  open("#/run/many");
  ASSERT_TRUE(sees("82 more curves."));
  EXPECT_EQ(browser_->run("return [...document.querySelectorAll('.chart h3')].slice(0, 4).map(e => "
                          "e.firstChild.data).join()"),
            "test/accuracy,train/loss,gradients/l0,gradients/l1");
  browser_->run(
      "[...document.querySelectorAll('button')].find(b => b.textContent === 'Show them').click()");
  EXPECT_TRUE(browser_->wait_for("document.querySelectorAll('.chart').length === 202"));
}

TEST_F(DashboardPage, TheAddressSaysWhatIsAskedFor) {
  run("one", 1, {.settings = {{"lr", "0.1"}}}).completed();
  run("two", 1, {.settings = {{"lr", "0.2"}}}).completed();
  open("#/runs?search=lr%3D0.2");
  ASSERT_TRUE(browser_->wait_for("document.querySelectorAll('tbody tr').length === 1"));
  browser_->click("tbody a");
  ASSERT_TRUE(sees("started"));
  browser_->run("history.back()");
  ASSERT_TRUE(browser_->wait_for("document.querySelectorAll('tbody tr').length === 1"));
  EXPECT_EQ(browser_->run("return document.querySelector('input[type=search]').value"), "lr=0.2");
  open("#/compare/one,none");
  EXPECT_TRUE(sees("there is no run 'none'"));
  EXPECT_TRUE(browser_->wait_for("document.querySelectorAll('.chart').length === 2"))
      << "of the other";
}

TEST_F(DashboardPage, ALogThatIsLookedAtStaysAndGrows) {
  put("p.toml", "[steps.a]\nrun = \"echo first\"\nmakes = \"out\"\n");
  run_program({sullae_program(), "pipeline", "run", root_ / "p.toml"});
  open("#/pipeline/p.toml");
  ASSERT_TRUE(browser_->wait_for("document.querySelector('tbody button')"));
  browser_->click("tbody button");
  ASSERT_TRUE(sees("first"));
  // As often as in a minute.
  browser_->run("for (let i = 0; i < 60; ++i) setTimeout(refresh, 20 * i)");
  const auto log = "document.querySelector('pre.log').textContent";
  const auto runs = root_ / ".sullae" / "pipelines" / "p" / "runs";
  for (const auto& entry : std::filesystem::directory_iterator(runs))
    std::ofstream(entry.path() / "a.log", std::ios::app) << "second\n";
  EXPECT_TRUE(browser_->wait_for(std::string(log) + ".includes('second')"));
  EXPECT_EQ(browser_->run(std::string("return ") + log + ".includes('first')"), true);
}

TEST_F(DashboardPage, ManyRunsAreTurnedPageByPage) {
  for (int i = 0; i < 120; ++i) RunLog(root_ / std::to_string(i), {}).completed();
  open();
  ASSERT_TRUE(sees("1 to 100 of 120"));
  browser_->run(
      "[...document.querySelectorAll('button')].find(b => b.textContent === 'Next').click()");
  EXPECT_TRUE(sees("101 to 120 of 120"));
  EXPECT_TRUE(browser_->wait_for("document.querySelectorAll('tbody tr').length === 20"));
}

TEST_F(DashboardPage, AnEmptyFolderSaysWhatToDo) {
  open();
  EXPECT_TRUE(sees("No runs here yet. sullae train mnist --run-dir"));
  open("#/pipelines");
  EXPECT_TRUE(sees("No pipeline has run here."));
  open("#/models");
  EXPECT_TRUE(sees("No models here yet."));
}

TEST_F(DashboardPage, PipelinesAndModels) {
  put("nightly.toml",
      "[steps.prepare]\nrun = \"echo prepared\"\nmakes = \"out\"\n[steps.train]\nrun = "
      "\"false\"\nafter = \"prepare\"\n");
  put("m/1/model.ckpt", "12345");
  run_program({sullae_program(), "pipeline", "run", root_ / "nightly.toml"});
  open("#/pipelines");
  ASSERT_TRUE(browser_->wait_for("document.querySelector('tbody a')"));
  browser_->click("tbody a");
  ASSERT_TRUE(sees("prepare")) << whole();
  EXPECT_TRUE(sees("failed"));
  browser_->click("tbody button");
  EXPECT_TRUE(sees("Log of prepare"));
  EXPECT_TRUE(sees("prepared"));
  open("#/models");
  EXPECT_TRUE(sees("checkpoint"));
  EXPECT_TRUE(sees("is not served"));
}

TEST_F(DashboardPage, ATokenComesWithTheAddressOrIsAskedFor) {
  options_.host = "0.0.0.0";
  run("a", 1);
  open();
  ASSERT_TRUE(browser_->wait_for("!document.getElementById('token-row').hidden"));
  browser_->type("#token", dashboard().token());
  browser_->click("#token-set");
  EXPECT_TRUE(browser_->wait_for("document.querySelectorAll('tbody tr').length === 1")) << whole();
  browser_->run("sessionStorage.clear(); location.reload()");
  ASSERT_TRUE(browser_->wait_for("!document.getElementById('token-row').hidden"));
  // Into the page that is open, as one does who has forgotten it.
  open("#token=" + dashboard().token());
  EXPECT_TRUE(browser_->wait_for("document.querySelectorAll('tbody tr').length === 1")) << whole();
  EXPECT_EQ(browser_->run("return location.href.includes('token')"), false);
}

}  // namespace
}  // namespace sullae::testing
