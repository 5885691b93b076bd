// Health: what every probe and every health service says, of whatever protocol. It is computed here
// alone, so that they cannot disagree; docs/operations.md, 'Health', has the table, and
// tests/chaos/health_test.cc compares a server with it, state by state.
#ifndef BEAMWRIGHT_SERVER_SERVING_HEALTH_H_
#define BEAMWRIGHT_SERVER_SERVING_HEALTH_H_

namespace beamwright::serving {

enum class Phase {
  kLoading,   // models load; calls are refused
  kServing,   // ready
  kLeaving,   // not ready any more, so that balancers look elsewhere; calls are still answered
  kRefusing,  // what was accepted is answered, new calls are refused
  kEnding,    // what was accepted is cancelled
};

struct Health {
  // The models are loaded. For startup probes.
  bool started = false;
  // A restart would not help. It does not depend on load, nor on any single model.
  bool live = true;
  // New clients are welcome, and there is a model that can serve them.
  bool ready = false;
  // Calls that do not decode, such as those about models, are welcome.
  bool tells = false;
  // Why it is not ready, for people.
  const char* reason = "ok";

  // Whether clients of one model are welcome. able: it is served, and not quarantined.
  bool ModelReady(bool able) const { return ready && able; }
};

// any_able: there is a model that is served and not quarantined. hangs: the engine has work and has
// not come round for the liveness timeout.
Health HealthOf(Phase phase, bool any_able, bool hangs);

}  // namespace beamwright::serving

#endif  // BEAMWRIGHT_SERVER_SERVING_HEALTH_H_
