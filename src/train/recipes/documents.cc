#include "train/recipes/documents.h"

#include <numeric>

#include "sullae/error.h"
#include "train/recipes/splits.h"

namespace sullae::train {
namespace {

constexpr std::size_t kHeldOut = 10;  // one in so many bytes

// The next white space; of a text without any, as of languages that have none, the next character.
std::size_t cut_after(const std::string& text, std::size_t place) {
  const auto space = text.find_first_of(" \t\n", place);
  if (space != std::string::npos) return space;
  const auto goes_on = [](char byte) {
    return (static_cast<unsigned char>(byte) & 0xc0U) == 0x80U;
  };
  while (place < text.size() && goes_on(text[place])) ++place;
  return place;
}

// What lies behind the first nine tenths, from the next word or text on.
std::vector<std::string> cut_off_end(std::vector<std::string>& texts) {
  const std::size_t bytes =
      std::accumulate(texts.begin(), texts.end(), std::size_t{0},
                      [](std::size_t sum, const auto& text) { return sum + text.size(); });
  std::size_t left = bytes - bytes / kHeldOut;
  auto text = texts.begin();
  for (; text != texts.end() && text->size() <= left; ++text) left -= text->size();
  if (text == texts.end()) return {};
  std::vector<std::string> end;
  if (left > 0) {
    const auto word = cut_after(*text, left);
    end.push_back(text->substr(word));
    text->resize(word);
    ++text;
  }
  end.insert(end.end(), std::make_move_iterator(text), std::make_move_iterator(texts.end()));
  texts.erase(text, texts.end());
  std::erase(end, "");
  return end;
}

}  // namespace

Documents read_documents(const RecipeOptions& options) {
  data::DamageLog damage(options.skip_damaged);
  const DataPaths paths = find_paths(options);
  const auto read = [&](const std::vector<std::filesystem::path>& files) {
    auto reading = reading_of(options, damage);
    reading.unlabelled = true;
    return data::read_plain_texts(*data::open_dataset(files, reading), damage);
  };
  Documents documents{
      .train = read(paths.train), .test = {}, .description = paths.description, .damaged = {}};
  if (paths.test.empty()) {
    documents.test = cut_off_end(documents.train);
    documents.description += ", its last tenth held out for testing";
  } else {
    documents.test = read(paths.test);
  }
  documents.damaged = damage.records();
  return documents;
}

}  // namespace sullae::train
