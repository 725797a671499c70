// A model repository in a store ("s3://bucket/models"), as a copy on this host's disk: for who
// serves its models, and who predicts with one.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "storage/store.h"
#include "sullae/error.h"

namespace sullae::repository {

/// What is to be copied is no model repository, or the copy is one of another.
class NoRepository : public InputError {
 public:
  using InputError::InputError;
};

/// What a copy has of a model: its configuration and all else beside its versions, and some of
/// those. A version appears whole, under its number; what other processes put beside what was
/// copied stays, as do samples of operators (examples.db), and is never written over. One thread of
/// a process uses it, whose waits end as Interruptible says; several processes may use one copy.
class Mirror {
 public:
  /// Those of the versions `there` that are copied, of the model whose folder here is given.
  using Wanted = std::function<std::set<std::int64_t>(const std::filesystem::path& model,
                                                      const std::set<std::int64_t>& there)>;

  /// Makes `local`, and asks the store nothing yet. Throws InputError where it cannot be made.
  Mirror(std::filesystem::path remote, std::filesystem::path local);

  const std::filesystem::path& local() const { return local_; }
  /// Whether there is one, of whatever age.
  bool has_copy() const;

  /// Makes the copy what the store has by now: versions that are not wanted any more, or gone
  /// there, go here. `wanted` is asked again without versions that turn out to have no model yet.
  /// Throws NoRepository; Error where the store does not answer, or does not give a model, after
  /// which the others are copied nevertheless; TimeoutError after SULLAE_MODEL_COPY_TIMEOUT where
  /// another process is at it.
  void update(const Wanted& wanted);
  /// One version of one model, beside what there is. Throws as update() does.
  void add(const std::string& model, std::int64_t number);

 private:
  using Listing = std::map<std::string, storage::Status>;  // by paths in the repository

  std::vector<storage::Entry> look() const;
  template <class Work>
  void with_record(const Work& work);
  void read_record();
  void write_record();
  std::set<std::int64_t> copy_model(const std::string& model, const Wanted& wanted);
  void copy_beside(const std::string& model, const std::vector<storage::Entry>& entries);
  bool copy_version(const std::string& model, std::int64_t number);
  void put_together(const std::string& model, std::int64_t number, const Listing& files);
  void copy_file(const std::string& file, const storage::Status& status);
  void drop(const std::string& file);
  void drop_version(const std::string& model, std::int64_t number);
  void drop_model(const std::string& model);
  std::set<std::string> copied_beside(const std::string& model) const;
  std::set<std::int64_t> copied_versions(const std::string& model) const;

  std::filesystem::path remote_;
  std::filesystem::path local_;
  std::map<std::string, std::string> copied_;   // what each file was in the store
  std::map<std::string, std::string> written_;  // what the record says
  bool is_adopting_ = false;    // the record was damaged: what is here may have been copied
  std::set<std::string> left_;  // what was made here, of which it was said
};

}  // namespace sullae::repository
