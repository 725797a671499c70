// Models larger than a process: ranks as a grid, an optimizer whose state is divided among them,
// layers in parts, and models in stages.
#pragma once

#include "sullae/parallel/differentiable_collectives.h"  // IWYU pragma: export
#include "sullae/parallel/mesh.h"                        // IWYU pragma: export
#include "sullae/parallel/parts_optimizer.h"             // IWYU pragma: export
#include "sullae/parallel/pipeline.h"                    // IWYU pragma: export
#include "sullae/parallel/sharded_optimizer.h"           // IWYU pragma: export
#include "sullae/parallel/sharded_units.h"               // IWYU pragma: export
#include "sullae/parallel/tensor_parallel.h"             // IWYU pragma: export
