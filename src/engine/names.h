// The names of the journal in which the engine is written: its words, its hosts and its waits.
#pragma once

#include "journal/attempt_memory.h"
#include "journal/contexts.h"
#include "journal/host.h"
#include "journal/layout.h"
#include "journal/log.h"
#include "journal/mix.h"
#include "journal/own.h"
#include "journal/rules.h"
#include "journal/step.h"
#include "journal/waiting.h"

namespace rejoin::engine {

using journal::breaks;
using journal::Buffer;
using journal::CallEntry;
using journal::ChannelEntry;
using journal::ContextBlock;
using journal::Contribution;
using journal::control_of;
using journal::find_block;
using journal::Frozen;
using journal::header_of;
using journal::Host;
using journal::Image;
using journal::kLine;
using journal::kSlotBytes;
using journal::kStageBytes;
using journal::kUnlinked;
using journal::kUnproven;
using journal::Log;
using journal::log_at;
using journal::log_chunk;
using journal::log_place;
using journal::make_tag;
using journal::Marked;
using journal::Marks;
using journal::MayFreeze;
using journal::Members;
using journal::mix;
using journal::ModelHash;
using journal::ModuleEntry;
using journal::Offset;
using journal::order_stores;
using journal::own_bytes;
using journal::owner_of;
using journal::payload_begin;
using journal::Phase;
using journal::Progress;
using journal::put;
using journal::RankControl;
using journal::Record;
using journal::region_of;
using journal::region_offset;
using journal::RegionHead;
using journal::ring_sleepers;
using journal::Rule;
using journal::SegmentHeader;
using journal::Slot;
using journal::StagingBuffer;
using journal::Step;
using journal::Tag;
using journal::Version;
using journal::VersionFault;

}  // namespace rejoin::engine
