/* Seats, the crash handler, and finding whom to blame. */
#include "pipeline/flight.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/mem.h"

enum {
    STACK_BYTES = 64 * 1024, /* of the handler: signal frames with AVX-512 state are large */
    DEATHS_BY_SIGNAL = 2,
    /* Whoever sends SIGKILL need not be the kernel that ran out of memory. */
    DEATHS_BY_KILL = 3,
};

static const int crash_signals[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT, SIGTRAP, SIGSYS};

static struct hr_flight *watched; /* constant once threads run */
static _Thread_local uint32_t my_seat; /* + 1; 0 = none */
static _Thread_local void *my_stack;

struct hr_flight *hr_flight_create(struct hr_error *err)
{
    struct hr_flight *f = mmap(NULL, sizeof(*f), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
                               -1, 0);

    if (f == MAP_FAILED) {
        hr_fail_errno(err, errno, "cannot map the flight recorder");
        return NULL;
    }
    return f;
}

void hr_flight_destroy(struct hr_flight *flight)
{
    if (flight)
        munmap(flight, sizeof(*flight));
}

/* ---- in the engine ---- */

static void on_crash(int signal_number, siginfo_t *info, void *context)
{
    uint32_t nobody = 0, who = my_seat ? my_seat : HR_FLIGHT_NO_SEAT;

    /* The first one counts: others may crash over what it left behind. */
    if (atomic_compare_exchange_strong(&watched->crashed, &nobody, who)) {
        atomic_store(&watched->signal, signal_number);
        atomic_store(&watched->in_control, syscall(SYS_gettid) == getpid());
    }
    signal(signal_number, SIG_DFL);
    /* A fault happens again when we return, and dies where it happened: the core dump shows it. */
    if (info->si_code <= 0 || signal_number == SIGABRT)
        raise(signal_number);
    (void)context;
}

void hr_flight_catch_crashes(struct hr_flight *flight)
{
    struct sigaction action = {.sa_sigaction = on_crash,
                               .sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER};

    watched = flight;
    sigemptyset(&action.sa_mask);
    for (size_t i = 0; i < HR_ARRAY_SIZE(crash_signals); i++)
        sigaction(crash_signals[i], &action, NULL);
}

void hr_flight_sit(struct hr_flight *flight, uint32_t seat)
{
    my_seat = seat + 1;
    if (flight != watched)
        return;
    void *stack = mmap(NULL, STACK_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (stack == MAP_FAILED)
        return; /* a stack that overflows is then blamed on all records in hand */
    stack_t own = {.ss_sp = stack, .ss_size = STACK_BYTES};
    if (sigaltstack(&own, NULL) < 0)
        munmap(stack, STACK_BYTES);
    else
        my_stack = stack;
}

void hr_flight_leave(void)
{
    stack_t none = {.ss_flags = SS_DISABLE};

    my_seat = 0;
    if (!my_stack)
        return;
    sigaltstack(&none, NULL);
    munmap(my_stack, STACK_BYTES);
    my_stack = NULL;
}

const struct hr_culprit *hr_flight_culprit(const struct hr_flight *f, uint32_t source, uint64_t record)
{
    for (uint32_t i = 0; i < f->culprit_count; i++)
        if (f->culprits[i].record == record && f->culprits[i].source == source)
            return &f->culprits[i];
    return NULL;
}

struct hr_suspect *hr_flight_suspect(struct hr_flight *f, uint32_t source, uint64_t record)
{
    for (uint32_t i = 0; i < f->suspect_count; i++)
        if (f->suspects[i].record == record && f->suspects[i].source == source)
            return &f->suspects[i];
    return NULL;
}

/* ---- in the supervisor ---- */

/* The engine that died could write here, and what killed it may have. */
static void bound_counts(struct hr_flight *f)
{
    if (f->culprit_count > HR_FLIGHT_CULPRITS)
        f->culprit_count = 0;
    if (f->suspect_count > HR_FLIGHT_SUSPECTS)
        f->suspect_count = 0;
}

void hr_flight_reset(struct hr_flight *f)
{
    atomic_store(&f->crashed, 0);
    atomic_store(&f->signal, 0);
    atomic_store(&f->in_control, 0);
    for (uint32_t i = 0; i < HR_FLIGHT_SEATS; i++) {
        struct hr_flight_seat *s = &f->seats[i];
        /* Pages that no thread used stay untouched. */
        if (atomic_load_explicit(&s->done, memory_order_relaxed))
            atomic_store_explicit(&s->done, 0, memory_order_relaxed);
        if (atomic_load_explicit(&s->in_hand, memory_order_relaxed))
            hr_flight_drop(s);
    }
}

uint64_t hr_flight_done(const struct hr_flight *f)
{
    uint64_t sum = 0;

    for (uint32_t i = 0; i < HR_FLIGHT_SEATS; i++)
        sum += atomic_load_explicit(&f->seats[i].done, memory_order_relaxed);
    return sum;
}

static bool add_culprit(struct hr_flight *f, uint64_t record, uint32_t source, uint32_t field,
                        int signal)
{
    if (hr_flight_culprit(f, source, record) || f->culprit_count == HR_FLIGHT_CULPRITS)
        return false;
    f->culprits[f->culprit_count] =
        (struct hr_culprit){.record = record, .source = source, .field = field, .signal = signal};
    /* The engine that is about to be killed may look at the list: complete before it is counted. */
    atomic_thread_fence(memory_order_release);
    f->culprit_count++;
    return true;
}

static bool add_culprit_in(struct hr_flight *f, const struct hr_flight_seat *s, int signal)
{
    uint64_t in_hand = atomic_load_explicit(&s->in_hand, memory_order_acquire);

    return in_hand && add_culprit(f, in_hand - 1,
                                  atomic_load_explicit(&s->source, memory_order_relaxed),
                                  atomic_load_explicit(&s->field, memory_order_relaxed), signal);
}

bool hr_flight_find_stalled(struct hr_flight *f, uint64_t now_ns, uint64_t limit_ns)
{
    bool found = false;

    bound_counts(f);
    for (uint32_t i = 0; i < HR_FLIGHT_WORKERS; i++) {
        const struct hr_flight_seat *s = &f->seats[i];
        uint64_t in_hand = atomic_load_explicit(&s->in_hand, memory_order_acquire);
        uint64_t since_ns = atomic_load_explicit(&s->since_ns, memory_order_relaxed);
        /* Looked at twice: the record may just have been finished and the next one taken. */
        if (in_hand && now_ns > since_ns && now_ns - since_ns > limit_ns &&
            atomic_load_explicit(&s->in_hand, memory_order_acquire) == in_hand)
            found |= add_culprit_in(f, s, 0);
    }
    return found;
}

static void drop_cleared(struct hr_flight *f)
{
    uint32_t kept = 0;

    for (uint32_t i = 0; i < f->suspect_count; i++) {
        struct hr_suspect s = f->suspects[i];
        if (!s.cleared && !hr_flight_culprit(f, s.source, s.record))
            f->suspects[kept++] = s;
    }
    f->suspect_count = kept;
}

static bool suspect_in(struct hr_flight *f, const struct hr_flight_seat *seat, int signal)
{
    uint64_t in_hand = atomic_load_explicit(&seat->in_hand, memory_order_acquire);
    uint32_t source = atomic_load_explicit(&seat->source, memory_order_relaxed);
    uint32_t field = atomic_load_explicit(&seat->field, memory_order_relaxed);

    if (!in_hand)
        return false;
    struct hr_suspect *s = hr_flight_suspect(f, source, in_hand - 1);
    if (!s) {
        if (f->suspect_count < HR_FLIGHT_SUSPECTS)
            f->suspects[f->suspect_count++] = (struct hr_suspect){
                .record = in_hand - 1, .source = source, .field = field, .deaths = 1};
        return false;
    }
    s->deaths++;
    uint32_t most = signal == SIGKILL ? DEATHS_BY_KILL : DEATHS_BY_SIGNAL;
    return s->deaths >= most && add_culprit(f, s->record, source, field, signal);
}

bool hr_flight_blame(struct hr_flight *f, int signal)
{
    uint32_t crashed = atomic_load(&f->crashed);
    bool found = false;

    bound_counts(f);
    drop_cleared(f);
    if (crashed && crashed <= HR_FLIGHT_SEATS) {
        found = add_culprit_in(f, &f->seats[crashed - 1], atomic_load(&f->signal));
    } else if (!crashed || !atomic_load(&f->in_control)) {
        for (uint32_t i = 0; i < HR_FLIGHT_SEATS; i++)
            found |= suspect_in(f, &f->seats[i], signal);
    }
    drop_cleared(f);
    return found;
}
