// What sources that arrive while they are searched may hold of an engine's bytes. They hold them
// for as long as their callers send, so calls must not depend on their end. Private to engine/.
#ifndef BEAMWRIGHT_ENGINE_REQUEST_STREAM_SHARE_H_
#define BEAMWRIGHT_ENGINE_REQUEST_STREAM_SHARE_H_

#include <cstdint>

namespace beamwright::engine {

// Of EngineOptions::max_bytes: most that streams may hold together; the rest is for calls.
inline int64_t MostStreamBytes(int64_t max_bytes) { return max_bytes / 4 * 3; }
// New streams begin only up to this while calls wait.
inline int64_t MostNewStreamBytes(int64_t max_bytes) { return max_bytes / 2; }

}  // namespace beamwright::engine

#endif  // BEAMWRIGHT_ENGINE_REQUEST_STREAM_SHARE_H_
