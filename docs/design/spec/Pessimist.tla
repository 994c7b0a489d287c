----------------------------- MODULE Pessimist -----------------------------
(* The core of the pessimistic protocol, for people: gate, event loggers with
   their rows and lives, deaths, survey, trimming. The rules that are named
   here are those of docs/design/protocol.md. What the real code does at each step is
   explored by sim/src/exhaustive; this text leaves out all that one need not
   know to see why the protocol holds.

   One rank, Rank 0 of the model, is looked at. Others send it one message
   each; it receives them in an order of chance (that is what a determinant
   records), and after each receive it may speak: send what it knows. What the
   others do follows from what they are sent, and needs no text here. *)

EXTENDS Naturals, Sequences, FiniteSets

CONSTANTS
    Loggers,     \* replicas of one shard
    Sources,     \* ranks that send one message each
    Quorum,      \* so many loggers make a determinant stable
    CrashesMax   \* deaths of the rank

VARIABLES
    life,     \* the rank's incarnation
    mode,     \* "seeking": a new life asks the loggers. "running".
    history,  \* what its program received, in order: its determinants
    stable,   \* how many of them the rank knows to be stable
    answers,  \* who has answered the survey of this life, and what
    joined,   \* loggers that have let this life in
    row,      \* per logger: entries [life, event]; the first of them may be gone
    mark,     \* per logger: the latest life that was let in there, see Join
    heard,    \* per logger: the latest life that said hello
    under,    \* batches that are under way: [to, life, at, event]
    acks,     \* acknowledgements under way: [from, life, end]
    first,    \* per logger: how many entries were given up
    saved,    \* two generations of checkpoints: how much each covers
    said      \* what came before all that has left the rank, in any life

vars == <<life, mode, history, stable, answers, joined, row, mark,
          heard, under, acks, first, saved, said>>

AnswersNeeded ==
    LET n == Cardinality(Loggers)
    IN  IF Quorum > n + 1 - Quorum THEN Quorum ELSE n + 1 - Quorum

Prefix(s, t) == Len(s) <= Len(t) /\ SubSeq(t, 1, Len(s)) = s
Events(entries) == [i \in 1..Len(entries) |-> entries[i].event]
Min(a, b) == IF a < b THEN a ELSE b
Max(a, b) == IF a > b THEN a ELSE b

(* What a logger has, in the order of the survey: which life was let in last,
   then how much. Compare the terms of a replicated log. *)
Holding(l) == [mark |-> mark[l], row |-> row[l], first |-> first[l]]
AtLeast(a, b) ==
    \/ a.mark > b.mark
    \/ a.mark = b.mark /\ Len(a.row) >= Len(b.row)
Greatest(holdings) == CHOOSE h \in holdings : \A g \in holdings : AtLeast(h, g)

Init ==
    /\ life = 0 /\ mode = "running" /\ history = <<>>
    /\ stable = 0 /\ answers = {} /\ joined = Loggers
    /\ row = [l \in Loggers |-> <<>>]
    /\ mark = [l \in Loggers |-> 0] /\ heard = [l \in Loggers |-> 0]
    /\ first = [l \in Loggers |-> 0]
    /\ under = {} /\ acks = {} /\ saved = <<0, 0>> /\ said = <<>>

----------------------------------------------------------------------------
(* The rank *)

(* A receive from any rank gets a message: chance. Its determinant is sent to
   all that are joined (GATE-2). *)
Receive(s) ==
    /\ mode = "running"
    /\ \A i \in 1..Len(history) : history[i] /= s
    /\ history' = Append(history, s)
    /\ under' = under \cup
         {[to |-> l, life |-> life, at |-> Len(history) + 1, event |-> s] :
            l \in joined}
    /\ UNCHANGED <<life, mode, stable, answers, joined, row, mark,
                   heard, acks, first, saved, said>>

(* GATE-1: nothing leaves while an earlier determinant is not stable. What was
   taken over counts as stable once a quorum has let this life in: before that
   it does not run. *)
Speak ==
    /\ mode = "running"
    /\ stable = Len(history)
    /\ said' = IF Len(history) > Len(said) THEN history ELSE said
    /\ UNCHANGED <<life, mode, history, stable, answers, joined, row,
                   mark, heard, under, acks, first, saved>>

(* GATE-3: an acknowledgement counts if it is of this life; stable is what a
   quorum has acknowledged (EL-1). *)
Acknowledged ==
    /\ mode = "running"
    /\ \E end \in 1..Len(history) :
         /\ end > stable
         /\ Quorum <= Cardinality({l \in Loggers : \E a \in acks :
                a.from = l /\ a.life = life /\ a.end >= end})
         /\ stable' = end
    /\ UNCHANGED <<life, mode, history, answers, joined, row, mark,
                   heard, under, acks, first, saved, said>>

(* A checkpoint waits at the gate, as everything does. Two generations are
   kept; GC-1: loggers may give up what the *older* one covers. *)
Checkpoint ==
    /\ mode = "running" /\ stable = Len(history) /\ saved[2] < Len(history)
    /\ saved' = <<saved[2], Len(history)>>
    /\ UNCHANGED <<life, mode, history, stable, answers, joined, row,
                   mark, heard, under, acks, first, said>>

Trim(l) ==
    /\ first[l] < Min(saved[1], Len(row[l]))
    /\ first' = [first EXCEPT ![l] = Min(saved[1], Len(row[l]))]
    /\ UNCHANGED <<life, mode, history, stable, answers, joined, row,
                   mark, heard, under, acks, saved, said>>

Crash ==
    /\ life < CrashesMax
    /\ life' = life + 1 /\ mode' = "seeking"
    /\ history' = <<>> /\ stable' = 0
    /\ answers' = {} /\ joined' = {}
    \* What is under way stays under way: it may come late.
    /\ UNCHANGED <<row, mark, heard, under, acks, first, saved, said>>

----------------------------------------------------------------------------
(* The loggers *)

(* A batch is taken if it is of the life that said hello last (FENCE-1) and
   goes on where the row ends (EL-5). *)
Take(b) ==
    /\ b \in under /\ under' = under \ {b}
    /\ IF b.life = heard[b.to] /\ b.life = mark[b.to]
          /\ b.at = Len(row[b.to]) + 1
       THEN /\ row' = [row EXCEPT ![b.to] =
                         Append(@, [life |-> b.life, event |-> b.event])]
            /\ acks' = acks \cup {[from |-> b.to, life |-> b.life, end |-> b.at]}
       ELSE UNCHANGED <<row, acks>>
    /\ UNCHANGED <<life, mode, history, stable, answers, joined, mark,
                   heard, first, saved, said>>

(* A life that begins asks; whoever is asked fences all lives before. *)
Survey(l) ==
    /\ mode = "seeking" /\ Cardinality(answers) < AnswersNeeded
    /\ \A a \in answers : a.from /= l
    /\ heard' = [heard EXCEPT ![l] = life]
    /\ answers' = answers \cup {[from |-> l, holding |-> Holding(l)]}
    /\ UNCHANGED <<life, mode, history, stable, joined, row, mark,
                   under, acks, first, saved, said>>

Begun == mode = "seeking" /\ Cardinality(answers) >= AnswersNeeded
Base  == Greatest({a.holding : a \in answers})

(* A logger lets the life in once its row is what the life takes over, to the
   entry: it cuts, or fetches from another that has it. It keeps that this
   life was let in (mark), also if that never writes anything: else a later
   survey may prefer a row of a life between. This is what the server lacks
   today: docs/design/model-checking.md. *)
Join(l) ==
    /\ Begun /\ l \notin joined
    /\ \E from \in Loggers :
         \* Of those that have it, one gives it.
         /\ Prefix(Base.row, row[from])
         /\ row' = [row EXCEPT ![l] = Base.row]
         /\ first' = [first EXCEPT ![l] = Max(@, first[from])]
    /\ heard' = [heard EXCEPT ![l] = life]
    /\ mark' = [mark EXCEPT ![l] = life]
    /\ joined' = joined \cup {l}
    /\ UNCHANGED <<life, mode, history, stable, answers, under, acks,
                   saved, said>>

(* Once a quorum has let it in, the life plays again what it took over, from
   one of its checkpoints on (REC-1, REC-4), and goes on. Loggers that come
   later are left out here: they are like loggers that are never asked. *)
Run ==
    /\ Begun /\ Cardinality(joined) >= Quorum
    /\ mode' = "running"
    /\ history' = Events(Base.row)
    /\ stable' = Len(Base.row)
    /\ UNCHANGED <<life, answers, joined, row, mark, heard, under, acks,
                   first, saved, said>>

Next ==
    \/ \E s \in Sources : Receive(s)
    \/ Speak \/ Acknowledged \/ Checkpoint \/ Crash \/ Run
    \/ \E l \in Loggers : Survey(l) \/ Join(l) \/ Trim(l)
    \/ \E b \in under : Take(b)

Spec == Init /\ [][Next]_vars

----------------------------------------------------------------------------
(* The rules *)

(* What a life may take over that asked so many loggers now. *)
Surveys == {asked \in SUBSET Loggers : Cardinality(asked) = AnswersNeeded}
Learnt(asked) ==
    {h \in {Holding(l) : l \in asked} :
        \A l \in asked : AtLeast(h, Holding(l))}

(* GATE-1, EL-1, EL-5: all that came before anything that was said is learnt
   by whoever begins next, whichever loggers it asks. So there is no orphan:
   what was said is said again. *)
GATE1 == \A asked \in Surveys : \A h \in Learnt(asked) : Prefix(said, Events(h.row))

(* What this life does, it does after what was said before. *)
NoOrphan == mode = "running" => Prefix(said, history) \/ Prefix(history, said)

(* EL-2: an entry's life and place name its content. *)
EL2 == \A l, m \in Loggers :
         \A i \in 1..Min(Len(row[l]), Len(row[m])) :
           row[l][i].life = row[m][i].life =>
             SubSeq(row[l], 1, i) = SubSeq(row[m], 1, i)

(* FENCE-1: no entry is of a life that its logger had fenced before it came,
   so lives never go back along a row. *)
FENCE1 == \A l \in Loggers :
            /\ mark[l] <= heard[l]
            /\ \A i \in 1..Len(row[l]) : row[l][i].life <= mark[l]
            /\ \A i \in 1..Len(row[l]) - 1 : row[l][i].life <= row[l][i+1].life

(* GC-1: whoever begins with the older checkpoint finds all that comes after. *)
GC1 == \A asked \in Surveys : \A h \in Learnt(asked) : h.first <= saved[1]

TypeOK ==
    /\ life \in 0..CrashesMax /\ mode \in {"seeking", "running"}
    /\ stable <= Len(history) /\ joined \subseteq Loggers
    /\ \A l \in Loggers : first[l] <= Len(row[l])
=============================================================================
