# Declarations of clob/matcher/entities.pyx, and the memory layout of the Structs that compiled code
# reads: the fields of a class in alphabetical order, after those of its base. clob.matcher.compiled
# checks the layout at import.

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
        PyObject *attachment, *client_id, *deadline_ms, *market, *order, *order_hash;
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
        PyObject *filled_collateral, *id, *maker, *nonce, *number, *order_hash;
        PyObject *post_only, *price, *remaining, *self_trade, *side, *size, *smart_wallet;
        PyObject *submitted, *time_in_force;
    } ClobOrderSnapshot;
    """
    ctypedef class clob.order.Order [object ClobOrder, check_size error]:
        cdef object collateral
        cdef object expiration_s
        cdef object fee_rate_bps
        cdef object id
        cdef object maker
        cdef object nonce
        cdef object post_only
        cdef object price
        cdef object self_trade
        cdef object side
        cdef object size
        cdef object smart_wallet
        cdef object time_in_force
        cdef object token

    ctypedef class clob.commands.Submit [object ClobSubmit, check_size error]:
        cdef object now_ms
        cdef object attachment
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

    ctypedef class clob.matcher.state_records.OrderSnapshot [
        object ClobOrderSnapshot, check_size error
    ]:
        cdef object accepted_ms
        cdef object client_id
        cdef object filled_collateral
        cdef object maker
        cdef object number
        cdef object order_hash
        cdef object remaining
        cdef object submitted


cdef extern from *:
    """
    #define clob_prefetch(thing) \
        (__builtin_prefetch((thing)), __builtin_prefetch((const char *)(thing) + 64))
    """
    # Load an object into the CPU cache while other work is done.
    void prefetch "clob_prefetch"(object thing) noexcept


cdef class Account:
    cdef public str wallet
    cdef public str asset
    cdef public object balance
    cdef public object reserved
    cdef public object unsettled
    cdef public dict smart_wallet_orders


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
    cdef public bint has_fees
    cdef public object yes_book
    cdef public object no_book
    cdef public object seq_book
    cdef public dict makers
    cdef public dict pending

    cpdef move_seq(self, book)


cdef class MakerState:
    cdef public str maker
    cdef public MarketState market_state
    cdef public OrderEntry first
    cdef public OrderEntry last
    cdef public list asleep
    cdef public Py_ssize_t count
    cdef public MakerState previous_market
    cdef public MakerState next_market
    cdef public bint has_accounts
    cdef public Account collateral
    cdef public Account yes
    cdef public Account no


cdef class OrderEntry:
    # The fields that a cancel touches come first, close to each other.
    cdef public Order order
    cdef public MakerState maker_state
    cdef public OrderEntry before
    cdef public OrderEntry after
    cdef public OrderEntry next_finished
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
    cdef public Order submitted
    cdef public long long number
    cdef public long long accepted_ms


cdef Account NO_ACCOUNT

cpdef OrderEntry make_entry(Order order, MakerState maker_state, bint is_yes)
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
    cdef public object other_seq
