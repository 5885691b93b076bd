// The self-checks at load. Private to engine/.
#ifndef BEAMWRIGHT_SERVER_ENGINE_SELF_CHECK_H_
#define BEAMWRIGHT_SERVER_ENGINE_SELF_CHECK_H_

#include "absl/status/status.h"
#include "server/engine/parts.h"

namespace beamwright::engine {

// Rows stacked and sources encoded together must give the bits that they
// give alone; where they do not, the parts fall back to one at a time.
absl::Status SelfCheck(DecodeModel::Parts& parts);

}  // namespace beamwright::engine

#endif  // BEAMWRIGHT_SERVER_ENGINE_SELF_CHECK_H_
