// Admission's compute: encoders in groups of exactly equal source length, then what each request's
// steps start from. Private to engine/.
#ifndef BEAMWRIGHT_SERVER_ENGINE_ENCODE_H_
#define BEAMWRIGHT_SERVER_ENGINE_ENCODE_H_

#include <memory>
#include <vector>

#include "server/engine/request/request.h"
#include "server/engine/request/underway.h"

namespace beamwright::engine {

// Encodes and prepares requests for all decoders that they use, in one run of each encoder: at
// least one request, all of one model and, if it has an encoder, of one source shape. Those that
// fail get their answer here; the others are returned, ready to join the running batch. underway:
// through whom others may answer them meanwhile, and interrupt the run (null: nobody); then those
// without an answer are put into `again`.
std::vector<std::unique_ptr<Request>> Encode(
    const ops::ExecutionContext& context, std::vector<std::unique_ptr<Request>> group,
    Underway* underway = nullptr, std::vector<std::unique_ptr<Request>>* again = nullptr);

}  // namespace beamwright::engine

#endif  // BEAMWRIGHT_SERVER_ENGINE_ENCODE_H_
