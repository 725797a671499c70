// The threads that run operations in the background.
#pragma once

namespace sullae::engine {

/// True in the threads of engines and of background queues, which cannot wait for their own end.
inline thread_local bool in_own_thread = false;

}  // namespace sullae::engine
