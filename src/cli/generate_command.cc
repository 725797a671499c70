#include <fmt/format.h>
#include <torch/torch.h>

#include <algorithm>
#include <cstdio>
#include <string>
#include <type_traits>

#include "base/system_error.h"
#include "cli/commands.h"
#include "cli/other_commands.h"
#include "cli/validators.h"
#include "sullae/torch/checkpoint.h"
#include "train/find_model.h"
#include "train/generation.h"
#include "train/task.h"

namespace sullae::cli {
namespace {

std::string flag_of(const char* option) {
  std::string flag = std::string("--") + option;
  std::ranges::replace(flag, '_', '-');
  return flag;
}

class GenerateCommand final : public Command {
 public:
  CLI::App* declare(CLI::App& program) override {
    CLI::App* app = program.add_subcommand("generate", description_of("generate"));
    app->footer(
        "Examples:\n"
        "  sullae train gpt --data texts/ --checkpoint-dir run --export models\n"
        "  sullae generate run --prompt 'Once upon a time'\n"
        "  sullae generate models/gpt --samples 3 --temperature 1.0 --top-k 40");
    app->add_option("MODEL", model_,
                    "A checkpoint; or the newest of a --checkpoint-dir, or of a model's folder in "
                    "a repository")
        ->required();
    app->add_option("--prompt", prompt_, "What to go on with; else from the beginning of a text")
        ->type_name("TEXT");
    add(*app, "--max-tokens", options_.max_tokens, "Pieces to write, unless the text ends before")
        ->type_name("N");
    add(*app, "--temperature", options_.temperature,
        "Scores are divided by it; 0 takes the likeliest piece")
        ->type_name("X");
    add(*app, "--top-k", options_.top_k, "Draw from so many of the likeliest pieces; 0: from all")
        ->type_name("N");
    add(*app, "--top-p", options_.top_p,
        "Draw from the likeliest pieces that have this probability together")
        ->type_name("X");
    add(*app, "--seed", options_.seed, "The same seed gives the same text")->type_name("N");
    app->add_option("--samples", samples_, "Texts to write, with one seed after the other")
        ->check(positive_integer())
        ->capture_default_str()
        ->type_name("N");
    return app;
  }

  int run() override {
    train::check_generation(options_, flag_of);
    const auto file = train::find_model(model_).file;
    const auto description = train::description_of(read_checkpoint_metadata(file), file.string());
    const auto network = train::find_recipe(description.recipe).model(description);
    auto* const writer = dynamic_cast<train::LanguageModel*>(network.get());
    if (writer == nullptr)
      throw InputError(
          fmt::format("{}: is a {} model, which writes nothing: expected one of "
                      "`sullae train gpt`",
                      file.string(), description.recipe));
    load_checkpoint(file, *network);
    network->eval();
    const train::Language language(description);
    for (int sample = 0; sample < samples_; ++sample) {
      if (sample > 0) fmt::print("----\n");
      write(*writer, language);
      ++options_.seed;
    }
    return 0;
  }

 private:
  template <class Value>
  static CLI::Option* add(CLI::App& app, const char* flag, Value& value, const char* help) {
    auto* option = app.add_option(flag, value, help)->capture_default_str();
    if constexpr (std::is_integral_v<Value>) return option->check(whole_number<Value>());
    return option->check(any_number());
  }

  // As it comes.
  void write(train::LanguageModel& writer, const train::Language& language) const {
    const torch::NoGradGuard guard;
    train::Continuation text(language, prompt_, options_);
    std::size_t shown = 0;
    const auto show = [&](const std::string& whole) {
      std::fwrite(whole.data() + shown, 1, whole.size() - shown, stdout);
      std::fflush(stdout);
      shown = whole.size();
    };
    // White space at its end would come twice: what follows has its own.
    fmt::print("{}", prompt_.substr(0, prompt_.find_last_not_of(' ') + 1));
    while (!text.ended()) {
      text.take(writer.go_on({text.unseen()})[0]);
      show(text.text());
    }
    fmt::print("\n");
    if (std::fflush(stdout) != 0 || std::ferror(stdout) != 0)
      throw system_error("the text cannot be written");
  }

  std::string model_;
  std::string prompt_;
  train::GenerationOptions options_;
  int samples_ = 1;
};

}  // namespace

std::unique_ptr<Command> make_generate_command() { return std::make_unique<GenerateCommand>(); }

}  // namespace sullae::cli
