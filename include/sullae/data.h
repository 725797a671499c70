// Data sets: readers and writers of published formats, sharding, decoding and prefetching.
//
//   auto set = sullae::data::open_dataset({"train/part-*"});            // whatever the files hold
//   auto order = sullae::data::epoch_order(set->size(), {.seed = 1}, epoch);    // shuffled, the same on every rank
//   sullae::data::Example example = set->read(order[0]);                // any sample, from any thread
//
// Everything that reads throws InputError, which says which file, where in it, what was found and
// what was expected; DamagedRecord where one record alone is at fault.
#pragma once

#include "sullae/data/dataset.h"   // IWYU pragma: export
#include "sullae/data/digits.h"    // IWYU pragma: export
#include "sullae/data/example.h"   // IWYU pragma: export
#include "sullae/data/image.h"     // IWYU pragma: export
#include "sullae/data/order.h"     // IWYU pragma: export
#include "sullae/data/parquet.h"   // IWYU pragma: export
#include "sullae/data/prefetch.h"  // IWYU pragma: export
#include "sullae/data/tar.h"       // IWYU pragma: export
#include "sullae/data/text.h"      // IWYU pragma: export
#include "sullae/data/tfrecord.h"  // IWYU pragma: export
