# What of clob/matcher/entities.pyx the compiled gate and desk use.
# How the Structs that the desk reads lie in memory: the fields of a class in alphabetical order,
# after those of its base. Engine.layout_holds says whether that is so.

cdef extern from *:
    """
    typedef struct {
        PyObject_HEAD
        PyObject *collateral, *expiration_s, *fee_rate_bps, *id, *maker, *nonce, *post_only;
        PyObject *price, *self_trade, *side, *size, *smart_wallet, *time_in_force, *token;
    } ClobOrder;
    typedef struct {
        PyObject_HEAD
        PyObject *now_ms;
        PyObject *client_id, *deadline_ms, *market, *order, *order_hash;
    } ClobSubmit;
    typedef struct {
        PyObject_HEAD
        PyObject *now_ms;
        PyObject *maker, *market, *order_id;
    } ClobCancel;
    typedef struct {
        PyObject_HEAD
        PyObject *buyer, *buyer_fee, *incoming_order_id, *incoming_remaining, *incoming_side;
        PyObject *market, *price, *resting_order_id, *resting_remaining, *seller, *seller_fee;
        PyObject *seq, *size, *token;
    } ClobTrade;
    typedef struct {
        PyObject_HEAD
        PyObject *accepted_ms, *client_id, *collateral, *expiration_s, *fee_rate_bps;
        PyObject *filled_collateral, *given, *id, *maker, *nonce, *number, *order_hash;
        PyObject *post_only, *price, *remaining, *self_trade, *side, *size, *smart_wallet;
        PyObject *time_in_force;
    } ClobOrderSnapshot;
    """
    ctypedef class clob.order.Order [object ClobOrder, check_size error]:
        cdef object collateral
        cdef object expiration_s
        cdef object fee_rate_bps
        cdef object id
        cdef object maker
        cdef object nonce
        cdef object price
        cdef object self_trade
        cdef object side
        cdef object size
        cdef object smart_wallet
        cdef object time_in_force
        cdef object token

    ctypedef class clob.commands.Submit [object ClobSubmit, check_size error]:
        cdef object now_ms
        cdef object client_id
        cdef object deadline_ms
        cdef object market
        cdef object order
        cdef object order_hash

    ctypedef class clob.commands.Cancel [object ClobCancel, check_size error]:
        cdef object now_ms
        cdef object maker
        cdef object market
        cdef object order_id

    ctypedef class clob.events.Trade [object ClobTrade, check_size error]:
        cdef object buyer_fee
        cdef object incoming_side
        cdef object price
        cdef object resting_order_id
        cdef object resting_remaining
        cdef object seller_fee
        cdef object seq
        cdef object size
        cdef object token

    ctypedef class clob.matcher.state_records.OrderSnapshot [object ClobOrderSnapshot, check_size error]:
        cdef object accepted_ms
        cdef object client_id
        cdef object filled_collateral
        cdef object given
        cdef object maker
        cdef object number
        cdef object order_hash
        cdef object remaining




cdef extern from *:
    """
    #define clob_prefetch(thing) \
        (__builtin_prefetch((thing)), __builtin_prefetch((const char *)(thing) + 64))
    """
    # A thing will be needed soon: let it come from memory while something else is done.
    void prefetch "clob_prefetch"(object thing) noexcept


cdef class Account:
    cdef public str wallet
    cdef public str asset
    cdef public object balance
    cdef public object reserved
    cdef public object unsettled
    cdef public dict guests


cdef class MarketState:
    cdef public object market
    cdef public str yes
    cdef public str no
    cdef public object mode
    cdef public object min_size
    cdef public object self_trade
    cdef public bint has_accounts
    cdef public bint settles
    cdef public bint complementary
    cdef public bint charges
    cdef public object yes_book
    cdef public object no_book
    cdef public object turn
    cdef public dict traders
    cdef public dict pending

    cpdef hand_over(self, book)


cdef class MakerState:
    cdef public str maker
    cdef public MarketState venue
    cdef public OrderEntry first
    cdef public OrderEntry last
    cdef public Py_ssize_t count
    cdef public bint has_accounts
    cdef public Account collateral
    cdef public Account yes
    cdef public Account no


cdef class OrderEntry:
    # What a cancel touches stands together.
    cdef public Order order
    cdef public MakerState trader
    cdef public OrderEntry before
    cdef public OrderEntry after
    cdef public OrderEntry later
    cdef public bint resting
    cdef public bint is_yes
    cdef public object removal
    cdef public object order_hash
    cdef public object client_id
    cdef public object remaining
    cdef public object reserve
    cdef public Account pays
    cdef public Account receives
    cdef public object filled_collateral
    cdef public Order given
    cdef public long long number
    cdef public long long accepted_ms


cdef Account NO_ACCOUNT

cpdef OrderEntry make_entry(Order order, MakerState trader, bint is_yes)
cpdef Order order_from(OrderSnapshot state, str token, str maker)


cdef class PendingTrade:
    cdef public Account buyer_pays
    cdef public Account buyer_receives
    cdef public Account seller_pays
    cdef public Account seller_receives
    cdef public object paid
    cdef public object size
    cdef public object buyer_fee
    cdef public object seller_fee
    cdef public object match_type
    cdef public object other
