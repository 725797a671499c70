// Models larger than a process: ranks as a grid, and an optimizer whose state is divided among them.
#pragma once

#include "sullae/parallel/mesh.h"               // IWYU pragma: export
#include "sullae/parallel/sharded_optimizer.h"  // IWYU pragma: export
