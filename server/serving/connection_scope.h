// ConnectionScope: of which connection the calls are that this thread starts. The queue lets
// connections take turns (engine/queue/fair_queue.h); what lies between a listener and the engine's
// options need not know of them.
#ifndef BEAMWRIGHT_SERVER_SERVING_CONNECTION_SCOPE_H_
#define BEAMWRIGHT_SERVER_SERVING_CONNECTION_SCOPE_H_

#include <cstdint>

namespace beamwright::serving {

// Scopes are not nested.
class ConnectionScope {
 public:
  // connection: a number that hardly another open one has; 0: unknown, or of one call alone.
  explicit ConnectionScope(uint32_t connection) { current_ = connection; }
  ~ConnectionScope() { current_ = 0; }
  ConnectionScope(const ConnectionScope&) = delete;
  ConnectionScope& operator=(const ConnectionScope&) = delete;

  // Of this thread; 0 outside of a scope.
  static uint32_t connection() { return current_; }

 private:
  static inline thread_local uint32_t current_ = 0;
};

}  // namespace beamwright::serving

#endif  // BEAMWRIGHT_SERVER_SERVING_CONNECTION_SCOPE_H_
