// An interrupt (Ctrl-C) that ends a measurement in order, with what it has; a second one ends the
// program.
#ifndef BEAMWRIGHT_CLIENT_CLI_INTERRUPT_H_
#define BEAMWRIGHT_CLIENT_CLI_INTERRUPT_H_

#include <atomic>

namespace beamwright::client {

// True from the first interrupt after StopOnInterrupt.
extern std::atomic<bool> interrupted;
void StopOnInterrupt();

}  // namespace beamwright::client

#endif  // BEAMWRIGHT_CLIENT_CLI_INTERRUPT_H_
