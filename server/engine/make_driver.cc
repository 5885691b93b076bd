#include "server/engine/make_driver.h"

#include <utility>

#include "server/engine/beam_driver.h"

namespace beamwright::engine {

std::unique_ptr<Driver> MakeDriver(std::shared_ptr<const DecodeModel> model) {
  return std::make_unique<BeamDriver>(std::move(model));
}

}  // namespace beamwright::engine
