// --kill: a rank kills itself at the requested points.
#pragma once

#include <cstdint>
#include <span>

#include "journal/own.h"

namespace rejoin::recovery {

using journal::Moment;
using journal::PointKind;

template <journal::Host H>
class FaultInjection {
 public:
  FaultInjection(H& host, std::uint32_t incarnation)
      : host_(host), points_(journal::fault_points(host)), incarnation_(incarnation) {
    arm(0);
  }

  // This incarnation begins behind the operation with this ordinal, from a checkpoint or as the
  // clone of a snapshot. Fault points in operations that are not repeated fire in the next
  // operation, which is the present one if the snapshot was made inside of it.
  void go_on_behind(std::uint32_t incarnation, std::uint64_t ordinal) {
    incarnation_ = incarnation;
    for (journal::FaultPoint& p : points_) {
      if (is_mine(p, PointKind::kOperation) && p.ordinal <= ordinal) p.ordinal = ordinal + 1;
    }
    arm(ordinal);
  }

  // Called in an image that has been woken, perhaps in a job with other faults.
  void look_again() { points_ = journal::fault_points(host_); }

  // A moment of the operation with this ordinal.
  void point(std::uint64_t ordinal, Moment moment) {
    if (ordinal == next_) [[unlikely]]
      maybe_die(PointKind::kOperation, moment, ordinal);
  }
  // A moment of MPI_Init or MPI_Finalize.
  void point(PointKind kind, Moment moment) { maybe_die(kind, moment, 0); }

  // Looks for the next operation, behind `ordinal`, in which something may fire.
  [[gnu::noinline]] void arm(std::uint64_t ordinal) {
    next_ = 0;
    for (const journal::FaultPoint& p : points_) {
      if (!is_mine(p, PointKind::kOperation) || p.ordinal <= ordinal) continue;
      if (next_ == 0 || p.ordinal < next_) next_ = p.ordinal;
    }
  }

 private:
  bool is_mine(const journal::FaultPoint& p, PointKind kind) const {
    return p.rank == host_.rank() && p.incarnation == incarnation_ && p.kind == kind;
  }

  [[gnu::noinline]] void maybe_die(PointKind kind, Moment moment, std::uint64_t ordinal) {
    for (journal::FaultPoint& p : points_) {
      if (!is_mine(p, kind) || p.moment != moment) continue;
      if (kind == PointKind::kOperation && p.ordinal != ordinal) continue;
      p.fired.store(host_, Step::kFlag, 1, std::memory_order_seq_cst);
      host_.die();
    }
    if (kind == PointKind::kOperation && moment == Moment::kAfter) arm(ordinal);
  }

  H& host_;
  std::span<journal::FaultPoint> points_;
  std::uint32_t incarnation_;
  std::uint64_t next_ = 0;  // 0 = none
};

}  // namespace rejoin::recovery
