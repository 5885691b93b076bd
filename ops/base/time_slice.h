// How long a thread may run before others on its CPU get their turn.
//
// Threads that answer calls work for microseconds and are waited for; those that compute work for
// as long as there is something to compute. Where they share CPUs, a scheduler that gives both the
// same slice (3 ms) lets a message wait for several of them. Linux 6.12 and later lets a thread
// that asks for a short slice run before those with longer ones, with no larger share of the CPU;
// for that it needs no privilege. Elsewhere nothing changes. Source: sched(7), sched_setattr(2).
#ifndef BEAMWRIGHT_OPS_BASE_TIME_SLICE_H_
#define BEAMWRIGHT_OPS_BASE_TIME_SLICE_H_

namespace beamwright {

// Of the calling thread, and of those that it starts from now on.
void UseShortTimeSlices();
void UseUsualTimeSlices();

}  // namespace beamwright

#endif  // BEAMWRIGHT_OPS_BASE_TIME_SLICE_H_
