// Which driver a model's requests are advanced by. Private to engine/.
#ifndef BEAMWRIGHT_SERVER_ENGINE_MAKE_DRIVER_H_
#define BEAMWRIGHT_SERVER_ENGINE_MAKE_DRIVER_H_

#include <memory>

#include "server/engine/driver.h"

namespace beamwright::engine {

std::unique_ptr<Driver> MakeDriver(std::shared_ptr<const DecodeModel> model);

}  // namespace beamwright::engine

#endif  // BEAMWRIGHT_SERVER_ENGINE_MAKE_DRIVER_H_
