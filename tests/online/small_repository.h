// A repository with a small model of texts, which samples are given to.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>
#include <set>
#include <string>

#include "online/round_store.h"
#include "repository/versions.h"
#include "serve/models.h"
#include "support/temporary_directory.h"
#include "train/export.h"
#include "train/small_texts.h"

namespace sullae::testing {

class SmallRepository : public ::testing::Test {
 protected:
  SmallRepository() { export_small_texts(directory_.path() / "data", repository_); }
  void configure(const std::string& settings) {
    put_text(model_ / "config.toml", "[online]\n" + settings);
  }
  online::Round last_round() { return online::RoundStore(database_).newest(1).at(0); }
  std::set<std::int64_t> versions() const { return repository::versions_in(model_); }

  TemporaryDirectory directory_;
  std::filesystem::path repository_ = directory_.path() / "models";
  std::filesystem::path model_ = repository_ / "texts";
  std::filesystem::path database_ = model_ / "examples.db";
};

}  // namespace sullae::testing
