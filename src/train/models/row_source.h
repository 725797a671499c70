// Models whose vectors may be elsewhere.
#pragma once

#include <torch/types.h>

#include <string>

namespace sullae::train {

/// Gives the rows of a table by their numbers; gradients go back to it.
class RowSource {
 public:
  virtual ~RowSource() = default;
  /// `numbers` is int64; float32 [..., columns].
  virtual torch::Tensor rows(const torch::Tensor& numbers) = 0;
};

/// What a copy of the model does not have: a clone is on its own.
class RowSourceOf {
 public:
  RowSourceOf() = default;
  RowSourceOf(const RowSourceOf&) {}
  RowSourceOf& operator=(const RowSourceOf&) { return *this; }
  void set(RowSource* source) { source_ = source; }
  RowSource* get() const { return source_; }

 private:
  RowSource* source_ = nullptr;
};

/// Of a table of vectors a step needs few.
class HasTable {
 public:
  virtual ~HasTable() = default;
  /// The parameter, [rows, columns], and its name in the model.
  virtual torch::Tensor table() const = 0;
  virtual std::string table_name() const = 0;
  /// From then on its rows come from there; null: they are the parameter's. It outlives the model's
  /// steps.
  void take_rows_from(RowSource* source) { source_.set(source); }

 protected:
  RowSource* source() const { return source_.get(); }

 private:
  RowSourceOf source_;
};

}  // namespace sullae::train
