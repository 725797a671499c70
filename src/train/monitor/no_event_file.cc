// Stands in for TensorBoard's event files, which are TFRecord files, where the build has none.
#include "sullae/error.h"
#include "train/monitor/event_file.h"

namespace sullae::train {

EventFile::EventFile(const std::filesystem::path&, int) {
  throw InputError(
      "--tensorboard-dir: this build of Sullae writes no event files: build it where protobuf and "
      "ISA-L are, with -D SULLAE_WITH_TFRECORD=ON");
}

void EventFile::stepped(const Moment&) {}
void EventFile::epoch_ended(const Moment&, const EpochReport&) {}

}  // namespace sullae::train
