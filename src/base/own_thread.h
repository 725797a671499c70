// The threads that run operations and callbacks in the background.
#pragma once

namespace sullae {

/// True in the threads of engines, background queues and messengers, which cannot wait for their own end.
inline thread_local bool in_own_thread = false;

}  // namespace sullae
