#include "predict/evaluation.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>
#include <ranges>

#include "storage/storage.h"
#include "sullae/error.h"
#include "train/monitor/plot.h"
#include "train/monitor/report_page.h"

namespace sullae::predict {
namespace {

// Nobody looks at a larger matrix, and the page and the report would grow with the square.
constexpr std::size_t kMostInMatrix = 200;

double share(std::int64_t part, std::int64_t whole) {
  return whole == 0 ? 0 : static_cast<double>(part) / static_cast<double>(whole);
}

}  // namespace

Confusion::Confusion(std::vector<std::string> classes)
    : classes_(std::move(classes)), samples_(classes_.size(), 0), predicted_(classes_.size(), 0) {
  for (std::size_t i = 0; i < classes_.size(); ++i) numbers_.emplace(classes_[i], i);
}

std::size_t Confusion::number_of(const std::string& name) const {
  const auto found = numbers_.find(name);
  if (found == numbers_.end())
    throw InputError(fmt::format("--labels: '{}' is none of the model's {} classes ({})", name,
                                 classes_.size(),
                                 fmt::join(classes_ | std::views::take(10), ", ")));
  return found->second;
}

void Confusion::add(const std::string& truth, const std::string& predicted) {
  add(number_of(truth), number_of(predicted), 1);
}

void Confusion::add(std::size_t truth, std::size_t predicted, std::int64_t count) {
  if (count == 0) return;
  counts_[{truth, predicted}] += count;
  samples_[truth] += count;
  predicted_[predicted] += count;
}

void Confusion::add(const nlohmann::json& counts) {
  const std::size_t size = classes_.size();
  if (!counts.empty() && counts.front().is_number()) {
    // Of a part that an earlier version has predicted: the whole matrix.
    const auto others = counts.get<std::vector<std::int64_t>>();
    if (others.size() != size * size)
      throw InputError(
          fmt::format("counts of {} pairs of classes, expected {}", others.size(), size * size));
    for (std::size_t i = 0; i < others.size(); ++i) add(i / size, i % size, others[i]);
    return;
  }
  for (const auto& [truth, predicted, count] : counts.get<std::vector<Triple>>()) {
    if (truth >= size || predicted >= size)
      throw InputError(fmt::format("a count of the classes {} and {}, expected 0 to {}", truth,
                                   predicted, size - 1));
    add(truth, predicted, count);
  }
}

nlohmann::json Confusion::counts() const {
  std::vector<Triple> triples;
  for (const auto& [pair, count] : counts_) triples.emplace_back(pair.first, pair.second, count);
  return triples;
}

std::int64_t Confusion::count(std::size_t truth, std::size_t predicted) const {
  const auto found = counts_.find({truth, predicted});
  return found == counts_.end() ? 0 : found->second;
}

std::int64_t Confusion::samples() const {
  return std::accumulate(samples_.begin(), samples_.end(), std::int64_t{0});
}

double Confusion::accuracy() const {
  std::int64_t right = 0;
  for (std::size_t i = 0; i < classes_.size(); ++i) right += count(i, i);
  return share(right, samples());
}

Confusion::OfClass Confusion::of_class(std::size_t number) const {
  OfClass of{.samples = samples_[number]};
  const std::int64_t predicted = predicted_[number];
  const std::int64_t right = count(number, number);
  of.precision = share(right, predicted);
  of.recall = share(right, of.samples);
  of.f1 = share(2 * right, predicted + of.samples);
  return of;
}

double Confusion::macro_f1() const {
  double sum = 0;
  std::size_t seen = 0;
  for (std::size_t i = 0; i < classes_.size(); ++i) {
    const OfClass of = of_class(i);
    if (of.samples == 0 && predicted_[i] == 0) continue;
    sum += of.f1;
    ++seen;
  }
  return seen == 0 ? 0 : sum / static_cast<double>(seen);
}

std::string Confusion::to_text() const {
  std::size_t width = 5;
  for (const auto& name : classes_) width = std::max(width, name.size());
  std::string text = fmt::format("accuracy {:.2f} % of {} samples, macro F1 {:.2f} %\n\n",
                                 100 * accuracy(), samples(), 100 * macro_f1());
  text += fmt::format("{:<{}}  samples  precision   recall       F1\n", "class", width);
  for (std::size_t i = 0; i < classes_.size(); ++i) {
    const OfClass of = of_class(i);
    text += fmt::format("{:<{}}  {:>7}  {:>7.2f} %  {:>5.2f} %  {:>5.2f} %\n", classes_[i], width,
                        of.samples, 100 * of.precision, 100 * of.recall, 100 * of.f1);
  }
  constexpr std::size_t kMostColumns = 12;
  if (classes_.size() > kMostColumns) return text;
  text += "\ntrue class below, predicted class across\n";
  text += fmt::format("{:<{}}", "", width);
  for (const auto& name : classes_)
    text += fmt::format("  {:>{}}", name, std::max<std::size_t>(7, name.size()));
  text += '\n';
  for (std::size_t i = 0; i < classes_.size(); ++i) {
    text += fmt::format("{:<{}}", classes_[i], width);
    for (std::size_t j = 0; j < classes_.size(); ++j)
      text += fmt::format("  {:>{}}", count(i, j), std::max<std::size_t>(7, classes_[j].size()));
    text += '\n';
  }
  return text;
}

nlohmann::json Confusion::to_json() const {
  nlohmann::json all = {{"accuracy", accuracy()},
                        {"macro_f1", macro_f1()},
                        {"samples", samples()},
                        {"classes", nlohmann::json::array()}};
  for (std::size_t i = 0; i < classes_.size(); ++i) {
    const OfClass of = of_class(i);
    all["classes"].push_back({{"name", classes_[i]},
                              {"samples", of.samples},
                              {"precision", of.precision},
                              {"recall", of.recall},
                              {"f1", of.f1}});
  }
  if (classes_.size() > kMostInMatrix) {
    all["confusion_counts"] = counts();
    return all;
  }
  for (std::size_t i = 0; i < classes_.size(); ++i) {
    auto row = nlohmann::json::array();
    for (std::size_t j = 0; j < classes_.size(); ++j) row.push_back(count(i, j));
    all["confusion"].push_back(std::move(row));
  }
  return all;
}

void write_page(const std::filesystem::path& file, const Confusion& confusion,
                const std::string& title) {
  const auto& classes = confusion.classes();
  const auto escaped = [](const std::string& text) {
    return train::escape_html(text);
  };
  std::string page = fmt::format(
      "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><meta name=\"viewport\" "
      "content=\"width=device-width\"><title>{0}</title><style>{1}\n"
      "td.cell {{ text-align: right; padding: .35rem .7rem; border: 1px solid var(--line); }}\n"
      "</style><h1>{0}</h1><p>accuracy {2:.2f} % of {3} samples, macro F1 {4:.2f} %</p>",
      escaped(title), train::page_style(), 100 * confusion.accuracy(), confusion.samples(),
      100 * confusion.macro_f1());
  page +=
      "<h2>Classes</h2><div class=\"scroll\"><table><tr><th>class<th>samples<th>precision<th>"
      "recall<th>F1</tr>";
  for (std::size_t i = 0; i < classes.size(); ++i) {
    const auto of = confusion.of_class(i);
    page += fmt::format("<tr><td>{}<td>{}<td>{:.2f} %<td>{:.2f} %<td>{:.2f} %</tr>",
                        escaped(classes[i]), of.samples, 100 * of.precision, 100 * of.recall,
                        100 * of.f1);
  }
  page += "</table></div><h2>Confusion</h2>";
  if (classes.size() > kMostInMatrix) {
    page += fmt::format(
        "<p>The matrix is left out for more than {} classes; _report.json has its counts that are "
        "not 0, as confusion_counts.</p></html>\n",
        kMostInMatrix);
    storage::write_file(file, page);
    return;
  }
  page +=
      "<p>True class below, predicted class across; shaded by its "
      "share of the true class.</p><div class=\"scroll\"><table><tr><th>";
  for (const auto& name : classes) page += "<th>" + escaped(name);
  page += "</tr>";
  for (std::size_t i = 0; i < classes.size(); ++i) {
    page += "<tr><td>" + escaped(classes[i]);
    const auto samples = confusion.of_class(i).samples;
    for (std::size_t j = 0; j < classes.size(); ++j) {
      const double part = share(confusion.count(i, j), samples);
      page += fmt::format(
          "<td class=\"cell\" style=\"background: color-mix(in srgb, var({}) {:.0f}%, "
          "transparent)\">{}",
          i == j ? "--c0" : "--c1", 70 * part, confusion.count(i, j));
    }
    page += "</tr>";
  }
  page += "</table></div></html>\n";
  storage::write_file(file, page);
}

}  // namespace sullae::predict
