#include "predict/part.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <utility>

#include "base/utf8.h"
#include "data/tools/work.h"
#include "sullae/error.h"

namespace sullae::predict {
namespace {

// Samples are read by threads in pieces, which are the same on any machine, and of each piece in so
// many parts.
constexpr std::size_t kImagePiece = 128;
constexpr std::size_t kOtherPiece = 1024;
constexpr std::size_t kParts = 16;
// As many samples are in memory at once, with what the model takes of them.
constexpr std::size_t kImages = 1024;
constexpr std::size_t kOthers = 16384;
// Fewer of those that take more than this together.
constexpr std::size_t kMostChunkBytes = std::size_t{256} << 20;

// Only rows of one kind are computed together; those of texts may be, of any lengths.
std::uint64_t kind_of(const serve::Rows& rows) { return rows.words.empty() ? rows.key : 0; }

// What the model takes of a sample, in memory.
std::size_t bytes_of(const serve::Rows& rows) {
  std::size_t bytes = 0;
  for (const torch::Tensor& tensor : rows.tensors) bytes += tensor.nbytes();
  for (const auto& words : rows.words) bytes += words.size() * sizeof(words.front());
  return bytes;
}

// How much of a batch a row takes.
std::size_t length_of(const serve::Rows& rows) {
  return rows.words.empty() ? 0 : rows.words.front().size();
}

// What is written of it as text has to be one: others would become one another's equals.
void check_kept(const data::Example& sample, const PredictOptions& options) {
  if (options.format != "jsonl" && options.format != "csv") return;
  for (const auto& column : options.columns) {
    const data::Feature* const feature = column_of(sample, column);
    const auto* const texts =
        feature == nullptr ? nullptr : std::get_if<data::Values<std::string>>(feature);
    if (texts == nullptr) continue;
    for (const std::string& text : *texts) {
      if (find_invalid_utf8(text) != std::string::npos)
        throw data::DamagedRecord(
            fmt::format("its column '{}' is no UTF-8, which --format {} does not hold: expected "
                        "--format parquet or tfrecord",
                        column, options.format));
    }
  }
}

}  // namespace

std::size_t piece_of(const serve::Model& model) {
  return model.codec().decodes_slowly() ? kImagePiece : kOtherPiece;
}

std::size_t most_together(const serve::Model& model, std::size_t batch_size) {
  return std::max(batch_size, model.codec().decodes_slowly() ? kImages : kOthers);
}

struct PartPredictor::Chunk {
  std::size_t begin = 0;
  std::vector<data::Example> samples;
  std::vector<std::optional<serve::Rows>> rows;  // none of a damaged sample
  std::vector<std::string> problems;
  // Of each sample: the batch that it was in, and where.
  std::vector<std::pair<std::size_t, std::size_t>> places;
  std::vector<std::vector<serve::InferTensor>> answers;  // by batch
};

PartPredictor::PartPredictor(const serve::Model& model, const data::Dataset& set,
                             const PredictOptions& options)
    : model_(model),
      set_(set),
      options_(options),
      batch_size_(model.codec().is_batched() ? options.batch_size : 1) {
  if (options.labels) labels_ = model.codec().labels();
}

PartSeen PartPredictor::predict(std::size_t begin, std::size_t end, RowWriter& writer,
                                const std::function<void(std::size_t)>& show) {
  PartSeen seen;
  seen.confusion = no_confusion();
  const std::size_t step = most_together(model_, batch_size_);
  for (std::size_t from = begin; from < end;) {
    Chunk chunk{.begin = from};
    read(chunk, std::min(step, end - from));
    compute(chunk, [&](std::size_t done) { show(from - begin + done); });
    write(chunk, writer, seen);
    from += chunk.samples.size();
  }
  return seen;
}

// At most so many samples, or fewer of large ones; of the same samples always as many.
void PartPredictor::read(Chunk& chunk, std::size_t most) {
  const std::size_t piece = piece_of(model_);
  std::size_t bytes = 0;
  while (chunk.samples.size() < most && bytes < kMostChunkBytes) {
    const std::size_t before = chunk.samples.size();
    read_more(chunk, std::min(piece, most - before));
    for (std::size_t i = before; i < chunk.rows.size(); ++i) {
      const std::string* const image = chunk.samples[i].bytes(data::feature::kImage);
      bytes += (chunk.rows[i] ? bytes_of(*chunk.rows[i]) : 0) + (image ? image->size() : 0);
    }
  }
  chunk.places.resize(chunk.samples.size());
  for (const std::string& problem : chunk.problems) {
    if (!problem.empty()) options_.reading.damage->report(problem);
  }
}

void PartPredictor::read_more(Chunk& chunk, std::size_t count) {
  const std::size_t before = chunk.samples.size();
  const std::size_t all = before + count;
  chunk.samples.resize(all);
  chunk.rows.resize(all);
  chunk.problems.resize(all);
  const std::size_t each = piece_of(model_) / kParts;
  data::work_in_parallel((count + each - 1) / each, options_.workers, [](std::size_t) {},
                         [&](std::size_t block, std::atomic<std::size_t>&) {
                           const std::size_t end = std::min(all, before + (block + 1) * each);
                           for (std::size_t i = before + block * each; i < end; ++i) {
                             try {
                               chunk.samples[i] = set_.read(chunk.begin + i);
                             } catch (const data::DamagedRecord& error) {
                               chunk.problems[i] = error.what();
                               continue;
                             }
                             try {
                               check_kept(chunk.samples[i], options_);
                               chunk.rows[i] = model_.codec().decode(chunk.samples[i]);
                             } catch (const data::DamagedRecord& error) {
                               chunk.problems[i] =
                                   fmt::format("{}: {}", set_.place(chunk.begin + i), error.what());
                             }
                           }
                         });
}

// Rows of one kind that are about as long are of one batch.
void PartPredictor::compute(Chunk& chunk, const std::function<void(std::size_t)>& show) {
  std::vector<std::size_t> order;
  for (std::size_t i = 0; i < chunk.rows.size(); ++i) {
    if (chunk.rows[i]) order.push_back(i);
  }
  std::ranges::stable_sort(order, {}, [&](std::size_t i) {
    return std::pair(kind_of(*chunk.rows[i]), length_of(*chunk.rows[i]));
  });
  std::vector<std::pair<std::size_t, std::size_t>> batches;  // of order
  for (std::size_t from = 0; from < order.size();) {
    std::size_t to = from + 1;
    while (to < order.size() && to - from < batch_size_ &&
           kind_of(*chunk.rows[order[to]]) == kind_of(*chunk.rows[order[from]]))
      ++to;
    batches.emplace_back(from, to);
    from = to;
  }
  chunk.answers.resize(batches.size());
  data::work_in_parallel(
      batches.size(), options_.workers, show,
      [&](std::size_t batch, std::atomic<std::size_t>& done) {
        std::vector<const serve::Rows*> rows;
        for (std::size_t at = batches[batch].first; at < batches[batch].second; ++at) {
          chunk.places[order[at]] = {batch, rows.size()};
          rows.push_back(&*chunk.rows[order[at]]);
        }
        auto answer = model_.answer_together(rows);
        for (const serve::InferTensor& output : answer) {
          if (output.shape.empty() || output.shape[0] != static_cast<std::int64_t>(rows.size()))
            throw Error(fmt::format("the model's output '{}' has not one entry for each of {} rows",
                                    output.name, rows.size()));
        }
        chunk.answers[batch] = std::move(answer);
        done += rows.size();
      });
}

std::string PartPredictor::truth_of(const Chunk& chunk, std::size_t place) const {
  const data::Example& sample = chunk.samples[place];
  if (const auto* const name = sample.bytes(data::feature::kClass)) return *name;
  const auto* const number = sample.label();
  if (number == nullptr)
    throw InputError(fmt::format("--labels: {}: has no label", set_.place(chunk.begin + place)));
  const auto& names = set_.classes();
  if (*number >= 0 && static_cast<std::size_t>(*number) < names.size())
    return names[static_cast<std::size_t>(*number)];
  if (*number >= 0 && static_cast<std::size_t>(*number) < labels_.size())
    return labels_[static_cast<std::size_t>(*number)];
  return std::to_string(*number);
}

void PartPredictor::write(const Chunk& chunk, RowWriter& writer, PartSeen& seen) const {
  for (std::size_t i = 0; i < chunk.samples.size(); ++i) {
    if (!chunk.rows[i]) {
      ++seen.damaged;
      continue;
    }
    const auto& [batch, place] = chunk.places[i];
    const auto& outputs = chunk.answers[batch];
    writer.write({.number = chunk.begin + i,
                  .sample = chunk.samples[i],
                  .outputs = outputs,
                  .of_batch = place});
    ++seen.rows;
    if (!seen.confusion) continue;
    // A classifier's first output is its label.
    seen.confusion->add(truth_of(chunk, i), outputs.front().strings[place]);
  }
}

}  // namespace sullae::predict
