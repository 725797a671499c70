#include "pipeline/definition.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <regex>
#include <set>
#include <utility>

#include "base/file.h"
#include "base/name.h"
#include "base/toml_file.h"
#include "sullae/error.h"

namespace sullae::pipeline {
namespace {

namespace fs = std::filesystem;

std::vector<std::string> texts(const TomlFile& file, const toml::node& node) {
  if (node.is_string()) return {file.text(node)};
  if (!node.is_array()) file.expect(node, "a text, or a list of texts");
  return file.texts(node);
}

// What throws InputError at this place of the file.
template <class Parse>
auto at(const TomlFile& file, const toml::node& node, const Parse& parse) {
  try {
    return parse(file.text(node));
  } catch (const InputError& error) {
    const std::string what = error.what();
    if (what.find(", line ") != std::string::npos) throw;
    file.fail(node, what);
  }
}

std::chrono::seconds parse_span(const std::string& text) {
  if (text.find(':') != std::string::npos)
    throw InputError(
        fmt::format("time = '{}': expected how long it may take, '4h' or '90m'", text));
  return std::chrono::seconds(deadline_after(0, text, "time"));
}

// What would be a folder called "{dte}", which the next run finds made. "${NAME}" is the shell's in
// `run` alone.
void check_path(const TomlFile& file, const toml::node& node, const std::string& path) {
  if (path.empty()) file.fail(node, "an empty path: expected a file's, or a folder's");
  static const std::regex mark(R"(\{([A-Za-z_]+)\})");
  for (std::sregex_iterator one(path.begin(), path.end(), mark), end; one != end; ++one) {
    const std::string word = (*one)[1];
    if (word != "date" && word != "time" && word != "name")
      file.fail(node,
                fmt::format("'{}': expected {{date}}, {{time}}, {{name}} or {{%…}} in place of "
                            "{{{}}}",
                            path, word));
  }
}

Step read_step(const TomlFile& file, const std::string& name, const toml::node& node) {
  const auto* const table = node.as_table();
  if (table == nullptr || !is_name(name))
    file.fail(node, fmt::format("steps.{}: expected a table, under a name of at most 64 letters, "
                                "digits, '-', '_' and '.'",
                                name));
  Step step{.name = name, .run = {}};
  const auto into = [&](std::vector<std::string>& list) {
    return [&](const toml::node& one) {
      list = texts(file, one);
    };
  };
  const auto paths_into = [&](std::vector<std::string>& list) {
    return [&](const toml::node& one) {
      list = texts(file, one);
      for (const std::string& path : list) check_path(file, one, path);
    };
  };
  file.apply(*table, {{"run", file.text_into(step.run)},
                      {"after", into(step.after)},
                      {"needs", paths_into(step.needs)},
                      {"makes", paths_into(step.makes)},
                      {"job",
                       [&](const toml::node& one) {
                         step.job = texts(file, one);
                       }},
                      {"environment", file.pairs_into(step.environment)},
                      {"time",
                       [&](const toml::node& one) {
                         step.time = at(file, one, &parse_span);
                       }},
                      {"attempts", file.integer_into(step.attempts, 1, 100)}});
  if (step.run.empty())
    file.fail(node, fmt::format("steps.{}: expected what it does, run = \"COMMAND\"", name));
  return step;
}

void read_tell(const TomlFile& file, const toml::node& node, Tell& tell) {
  const auto* const table = node.as_table();
  if (table == nullptr) file.expect(node, "a table");
  file.apply(*table, {{"command", file.text_into(tell.command)},
                      {"webhook", file.text_into(tell.webhook)},
                      {"of", [&](const toml::node& one) {
                         tell.of = texts(file, one);
                         for (const auto& event : tell.of) {
                           if (event != "late" && event != "failed" && event != "done")
                             file.fail(one,
                                       fmt::format("'{}': expected late, failed or done", event));
                         }
                       }}});
}

// Whether one is the other, or a folder above it.
bool holds(const std::string& above, const std::string& path) {
  // A slash at the end says nothing more.
  const auto normal = [](const std::string& text) {
    const fs::path whole = fs::path(text).lexically_normal();
    return whole.has_filename() || whole == whole.root_path() ? whole : whole.parent_path();
  };
  const fs::path a = normal(above);
  const fs::path b = normal(path);
  return a == b || std::ranges::mismatch(a, b).in1 == a.end();
}

bool makes_for(const Step& maker, const Step& user) {
  return std::ranges::any_of(maker.makes, [&](const auto& made) {
    return std::ranges::any_of(
        user.needs, [&](const auto& needed) { return holds(made, needed) || holds(needed, made); });
  });
}

// Each would find that the other has changed it, and do it again for ever.
void check_makes(const TomlFile& file, const toml::node& node, const std::vector<Step>& steps) {
  const auto fail = [&](const Step& step, const std::string& what) {
    file.fail(*node.as_table()->get(step.name), fmt::format("steps.{}: {}", step.name, what));
  };
  const auto is_same = [](const std::string& one, const std::string& other) {
    return holds(one, other) && holds(other, one);
  };
  std::vector<std::pair<std::string, const Step*>> made;
  for (const Step& step : steps) {
    if (makes_for(step, step)) fail(step, "needs what it makes itself");
    for (const std::string& path : step.makes) {
      for (const auto& [other, maker] : made) {
        if (is_same(path, other))
          fail(step, fmt::format("makes '{}', as {} does: expected one step that makes it", path,
                                 maker->name));
      }
      made.emplace_back(path, &step);
    }
  }
}

void add_makers(std::vector<Step>& steps) {
  for (Step& step : steps) {
    for (const Step& other : steps) {
      const bool is_known = std::ranges::find(step.after, other.name) != step.after.end();
      if (&other != &step && !is_known && makes_for(other, step)) step.after.push_back(other.name);
    }
  }
}

// Each behind those that it comes after.
std::vector<Step> in_order(std::vector<Step> steps, const fs::path& file) {
  std::vector<Step> ordered;
  std::set<std::string> done;
  while (!steps.empty()) {
    const auto next = std::ranges::find_if(steps, [&](const Step& step) {
      return std::ranges::all_of(step.after,
                                 [&](const auto& before) { return done.contains(before); });
    });
    if (next == steps.end()) {
      std::vector<std::string> names;
      for (const Step& step : steps) names.push_back(step.name);
      throw InputError(
          fmt::format("{}: steps wait for each other: {}", file.string(), fmt::join(names, ", ")));
    }
    done.insert(next->name);
    ordered.push_back(std::move(*next));
    steps.erase(next);
  }
  return ordered;
}

void check_after(const TomlFile& file, const toml::node& node, const std::vector<Step>& steps) {
  for (const Step& step : steps) {
    for (const auto& before : step.after) {
      if (std::ranges::find(steps, before, &Step::name) == steps.end())
        file.fail(*node.as_table()->get(step.name),
                  fmt::format("steps.{}: after '{}': there is no such step", step.name, before));
    }
  }
}

}  // namespace

const Step& Pipeline::step(const std::string& wanted) const {
  return *std::ranges::find(steps, wanted, &Step::name);
}

bool looks_like_pipeline(const fs::path& file) {
  try {
    const std::string text = read_file(file, TomlFile::kMostBytes);
    return text.starts_with("steps.") || text.find("\nsteps.") != std::string::npos ||
           text.find("[steps") != std::string::npos;
  } catch (const Error&) {
    return false;
  }
}

Pipeline read_pipeline(const fs::path& path) {
  const TomlFile file(path);
  const toml::table table = file.parse();
  Pipeline pipeline{.name = path.stem().string(),
                    .file = fs::absolute(path),
                    .folder = fs::absolute(path).parent_path()};
  const toml::node* steps = nullptr;
  file.apply(table, {{"name", file.text_into(pipeline.name)},
                     {"every",
                      [&](const toml::node& node) {
                        pipeline.every = at(file, node, [](const auto& text) {
                          return Schedule::parse(text, "every");
                        });
                      }},
                     {"deadline",
                      [&](const toml::node& node) {
                        pipeline.deadline = file.text(node);
                        at(file, node,
                           [](const auto& text) { return deadline_after(0, text, "deadline"); });
                      }},
                     {"overlap",
                      [&](const toml::node& node) {
                        const auto value = file.one_of(node, {"skip", "queue", "replace"});
                        pipeline.overlap = value == "skip"    ? Overlap::skip
                                           : value == "queue" ? Overlap::queue
                                                              : Overlap::replace;
                      }},
                     {"parallel", file.integer_into(pipeline.parallel, 0, 1000)},
                     {"environment", file.pairs_into(pipeline.environment)},
                     {"tell",
                      [&](const toml::node& node) {
                        read_tell(file, node, pipeline.tell);
                      }},
                     {"steps", [&](const toml::node& node) {
                        steps = &node;
                        if (!node.is_table()) file.expect(node, "tables, [steps.NAME]");
                        for (const auto& [name, step] : *node.as_table())
                          pipeline.steps.push_back(read_step(file, std::string(name.str()), step));
                      }}});
  if (!is_name(pipeline.name))
    throw InputError(
        fmt::format("{}: the name '{}': expected at most 64 letters, digits, '-', '_' "
                    "and '.'",
                    path.string(), pipeline.name));
  if (pipeline.steps.empty())
    throw InputError(fmt::format("{}: has no steps: expected [steps.NAME]", path.string()));
  check_after(file, *steps, pipeline.steps);
  check_makes(file, *steps, pipeline.steps);
  add_makers(pipeline.steps);
  pipeline.steps = in_order(std::move(pipeline.steps), path);
  return pipeline;
}

std::string expand(const std::string& text, const Pipeline& pipeline, Time scheduled) {
  static const std::regex mark(R"(\{(date|time|name|%[^{}]*)\})");
  std::string expanded;
  auto from = text.cbegin();
  for (std::sregex_iterator one(text.begin(), text.end(), mark), end; one != end; ++one) {
    const bool is_shells = (*one)[0].first != text.begin() && *std::prev((*one)[0].first) == '$';
    if (is_shells) continue;
    expanded.append(from, (*one)[0].first);
    const std::string word = (*one)[1];
    expanded += word == "date"   ? format_local(scheduled, "%Y-%m-%d")
                : word == "time" ? to_text(scheduled)
                : word == "name" ? pipeline.name
                                 : format_local(scheduled, word);
    from = (*one)[0].second;
  }
  return expanded.append(from, text.cend());
}

}  // namespace sullae::pipeline
