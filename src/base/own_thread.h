// The threads that run operations and callbacks in the background.
#pragma once

namespace sullae {

/// True in the threads of engines, background queues and messengers. They cannot wait for their own end, and leave the
/// processor to the training thread while they wait, where a thread of the program has nothing better to do than to wait.
inline thread_local bool in_own_thread = false;

}  // namespace sullae
